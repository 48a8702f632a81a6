"""Arrays saved as HDF5 are read by h5py and netCDF; load_hdf5 reads what they write, in any layout."""

import numpy as np
import pytest
from support.sharded_arrays import refused
from support.storage.layouts import CUTS, cells, cut, refusal_in_folder, shared_folder

import spmd_grid as sg

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("dtype", ["float64", ">i2", "bool", "complex64"])
@pytest.mark.parametrize("case", CUTS)
def test_h5py_reads_what_is_saved(spmd, tmp_path, case, dtype):
    def body():
        path, whole = shared_folder(tmp_path) / "u.h5", cells(CUTS[case].shape, dtype)
        a = cut(case, whole)
        sg.save_hdf5(path, {"u": a, "twice": a}, attributes={"run": 7})
        with h5py.File(path, "r") as file:
            assert sorted(file) == ["twice", "u"] and file.attrs["run"] == 7
            assert all(np.array_equal(file[name][...], whole) and file[name].dtype == whole.dtype for name in file)
        back = sg.load_hdf5(path, "u", a.sharding, a.grid)
        assert np.array_equal(back.stored, a.stored) or a.sharding.partial_axes
        return np.array_equal(back.to_global(), whole) and back.halos_are_fresh

    assert all(spmd(CUTS[case].ranks, body))


def test_netcdf_reads_dimensions(spmd, tmp_path):
    netcdf = pytest.importorskip("netCDF4")

    def body():
        path, u, v = shared_folder(tmp_path) / "run.nc", cells((4, 6)), cells((6,), "int32")
        grid = sg.init_grid((2,))
        arrays = {
            "u": sg.from_global(u, sg.Sharding(grid, [[0]]), grid),
            "v": sg.from_global(v, sg.Sharding(grid, [[0]]), grid),
        }
        sg.save_hdf5(path, arrays, dimension_names=["y", "x"], attributes={"title": "waves"})
        if grid.rank == 0:  # threads that use netCDF4 at once crash
            with netcdf.Dataset(path) as data:
                assert {name: len(dim) for name, dim in data.dimensions.items()} == {"y": 4, "x": 6}
                assert data["u"].dimensions == ("y", "x") and data["v"].dimensions == ("x",)
                assert sorted(data.variables) == ["u", "v"] and data.title == "waves"
                assert np.array_equal(data["u"][...], u) and np.array_equal(data["v"][...], v)
        sg.all_reduce(1, grid, [0], "sum")

    spmd(2, body)


@pytest.mark.parametrize("case", ["uneven rows", "both, halos", "swapped", "replicated", "partial"])
@pytest.mark.parametrize("options", [{}, {"chunks": (2, 3), "compression": "gzip"}], ids=["plain", "compressed"])
def test_what_h5py_wrote_is_read_in_any_layout(spmd, tmp_path, case, options):
    def body():
        path, whole = shared_folder(tmp_path) / "u.h5", cells(CUTS[case].shape, "float32")
        grid = sg.init_grid((-1,))
        if grid.rank == 0:
            with h5py.File(path, "w") as file:
                file.create_dataset("group/u", data=whole, **options)
        sg.all_reduce(1, grid, [0], "sum")
        expected = cut(case, whole)
        found = sg.load_hdf5(path, "group/u", expected.sharding, expected.grid, dtype="float64")
        assert found.dtype == np.float64 and np.array_equal(found.stored, expected.stored)
        return np.array_equal(found.to_global(), whole)

    assert all(spmd(CUTS[case].ranks, body))


REFUSED = {
    "a path with something": (
        lambda a, at: [sg.save_hdf5(at / "u", {"u": a}), sg.save_hdf5(at / "u", {"u": a})],
        "nothing is overwritten",
    ),
    "no dict": (lambda a, at: sg.save_hdf5(at / "u", a), "it must be a dict of names and arrays"),
    "names": (lambda a, at: sg.save_hdf5(at / "u", {"u": a}, dimension_names="yx"), "must list at least 2 names"),
    "extents": (
        lambda a, at: sg.save_hdf5(at / "u", {"u": a, "v": a[0, :3]}, dimension_names=["y", "x"]),
        "'v' has extent 3 along 'x'; another array has 6",
    ),
    "a name twice": (
        lambda a, at: sg.save_hdf5(at / "u", {"x": a}, dimension_names=["y", "x"]),
        "'x' is the name of an array and of a dimension",
    ),
    "an attribute": (
        lambda a, at: sg.save_hdf5(at / "u", {"u": a}, attributes={"x": [None]}),
        "attribute 'x' is [None]; it must be a text, a number, or numbers",
    ),
    "nothing there": (lambda a, at: sg.load_hdf5(at / "u", "u", a.sharding, a.grid), "No such file"),
    "another file": (lambda a, at: sg.load_hdf5(__file__, "u", a.sharding, a.grid), "is no HDF5 file"),
    "another name": (
        lambda a, at: [sg.save_hdf5(at / "u", {"b": a}), sg.load_hdf5(at / "u", "c", a.sharding, a.grid)],
        "has no dataset 'c'; it has b",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_alike_and_leave_no_part(spmd, tmp_path, case):
    call, words = REFUSED[case]
    text, names = refusal_in_folder(spmd, tmp_path, call)
    assert words in text and names in ([], ["u"])


def test_classic_netcdf_is_refused_with_the_way_out(spmd, tmp_path):
    netcdf = pytest.importorskip("netCDF4")

    def make(grid):
        path = shared_folder(tmp_path) / "old.nc"
        if grid.rank == 0:
            netcdf.Dataset(path, "w", format="NETCDF3_CLASSIC").close()
        sg.all_reduce(1, grid, [0, 1], "sum")
        sg.load_hdf5(path, "u", sg.Sharding(grid, [[0]]), grid)

    _, text = refused(spmd, make)
    assert "is a netCDF file of the classic format; 'nccopy -k netCDF-4 OLD NEW'" in text
