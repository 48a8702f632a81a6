"""Arrays saved as zarr v3 are read by zarr and xarray; load_zarr reads what zarr writes, in any layout."""

import json

import numpy as np
import pytest
from support.sharded_arrays import refused
from support.storage.layouts import CUTS, cells, cut, refusal_in_folder, shared_folder

import spmd_grid as sg


@pytest.fixture(autouse=True, scope="module")
def _imported():
    """Imports zarr, which takes a second, where tests of it run."""
    global zarr
    zarr = pytest.importorskip("zarr")
    zarr.create_array({}, shape=(1,), dtype="u1")  # starts zarr's thread, which ranks at once might start twice


@pytest.mark.parametrize("dtype", ["float64", ">i2", "bool", "complex64"])
@pytest.mark.parametrize("case", CUTS)
def test_zarr_reads_what_is_saved(spmd, tmp_path, case, dtype):
    def body():
        path, whole = shared_folder(tmp_path) / "u.zarr", cells(CUTS[case].shape, dtype)
        a = cut(case, whole)
        sg.save_zarr(path, a)
        found = zarr.open_array(path, mode="r")[...]
        assert np.array_equal(found, whole) and found.dtype == whole.dtype.newbyteorder("=")
        back = sg.load_zarr(path, a.sharding, a.grid)
        return np.array_equal(back.to_global(), whole) and back.halos_are_fresh

    assert all(spmd(CUTS[case].ranks, body))


@pytest.mark.parametrize("chunks", [(1, 1), (2, 3), (4, 5), (100, 100)])
@pytest.mark.parametrize("case", ["uneven rows", "both, halos", "offsets", "partial"])
def test_any_chunks_in_any_memory(spmd, tmp_path, case, chunks):
    def body():
        folder, whole = shared_folder(tmp_path), cells(CUTS[case].shape, ">i4")
        for stage_bytes in (1, 200, 1 << 20):
            path = folder / f"{stage_bytes}.zarr"
            sg.save_zarr(path, cut(case, whole), chunks=chunks, stage_bytes=stage_bytes)
            found = zarr.open_array(path, mode="r")
            assert found.chunks == chunks and np.array_equal(found[...], whole), stage_bytes
        return True

    assert all(spmd(CUTS[case].ranks, body))


def test_regular_blocks_are_the_chunks_and_nothing_moves(spmd, tmp_path, monkeypatch):
    from spmd_grid.storage.files import steps

    def moved(*args):
        raise AssertionError("an array was moved, of which every block is a chunk")

    monkeypatch.setattr(steps, "reshard_local", moved)

    def body():
        path = shared_folder(tmp_path) / "u.zarr"
        sg.save_zarr(path, cut("both, halos", cells((7, 11))))
        return zarr.open_array(path, mode="r").chunks, sorted(each.name for each in (path / "c").rglob("*"))

    chunks, names = spmd(6, body)[0]
    assert chunks == (4, 4) and names == ["0", "0", "0", "1", "1", "1", "2", "2"]


def test_large_blocks_are_cut_into_equal_chunks(monkeypatch):
    from spmd_grid.storage.files import blocks

    grid = sg.Grid((2,))
    monkeypatch.setattr(blocks, "_CHUNK_BYTES", 1 << 10)
    rows = sg.Sharding(grid, [[0]])
    found = {extent: blocks.fitting_chunks(rows, (2 * extent, 64), 8) for extent in (96, 94, 7, 2, 1)}
    assert found == {96: (2, 64), 94: (2, 64), 7: (1, 64), 2: (2, 64), 1: (1, 64)}
    assert blocks.fitting_chunks(sg.Sharding(grid, []), (2, 1 << 16), 8) == (1, 128)


def test_xarray_opens_a_group(spmd, tmp_path):
    xarray = pytest.importorskip("xarray")

    def body():
        path = shared_folder(tmp_path) / "run.zarr"
        u, v = cells((4, 6)), cells((6,), "int32")
        grid = sg.init_grid((2,))
        arrays = {
            "u": sg.from_global(u, sg.Sharding(grid, [[0]]), grid),
            "v": sg.from_global(v, sg.Sharding(grid, []), grid),
        }
        sg.save_zarr(path, arrays, dimension_names=["y", "x"], attributes={"run": 7})
        with xarray.open_zarr(path) as data:
            assert data.sizes == {"y": 4, "x": 6} and data.attrs == {"run": 7}
            assert data.u.dims == ("y", "x") and data.v.dims == ("x",)
            assert np.array_equal(data.u, u) and np.array_equal(data.v, v)
        back = sg.load_zarr(path, sg.Sharding(grid, [[], [0]]), grid, name="u", dtype="float32")
        return back.dtype == np.float32 and np.array_equal(back.to_global(), u.astype("f4"))

    assert all(spmd(2, body))


def written_by_zarr(path, whole, **options):
    """An array that zarr wrote on the first rank, in the way of other programs: compressed, without empty chunks."""
    grid = sg.init_grid((-1,))
    if grid.rank == 0:
        zarr.create_array(path, data=whole, **options)
    sg.all_reduce(1, grid, [0], "sum")


@pytest.mark.parametrize("case", ["uneven rows", "both, halos", "swapped", "replicated", "partial"])
@pytest.mark.parametrize(
    "options",
    [{"chunks": (2, 3)}, {"chunks": (2, 2), "shards": (4, 4)}, {"chunks": (3, 2), "zarr_format": 2}],
    ids=["compressed", "shards", "format 2"],
)
def test_what_zarr_wrote_is_read_in_any_layout(spmd, tmp_path, case, options):
    def body():
        path, whole = shared_folder(tmp_path) / "u.zarr", cells(CUTS[case].shape, "float32")
        written_by_zarr(path, whole, **options)
        expected = cut(case, whole)
        found = sg.load_zarr(path, expected.sharding, expected.grid)
        assert found.dtype == np.float32 and np.array_equal(found.stored, expected.stored)
        return np.array_equal(found.to_global(), whole)

    assert all(spmd(CUTS[case].ranks, body))


def test_missing_chunks_raise_unless_they_may_be_filled(spmd, tmp_path):
    def make(grid):
        path, whole = shared_folder(tmp_path) / "u.zarr", np.ones((4, 6))
        whole[2:] = 0
        written_by_zarr(path, whole, chunks=(2, 3))  # the chunks of zeros are left out
        sharding = sg.Sharding(grid, [[0], [1]])
        filled = sg.load_zarr(path, sharding, grid, fill_missing=True)
        assert np.array_equal(filled.to_global(), whole)
        sg.load_zarr(path, sharding, grid)

    name, text = refused(spmd, make)
    assert name == "StorageError" and "chunk 'c/1/0' of" in text and "is missing; fill_missing=True" in text


def test_a_changed_bit_is_found(spmd, tmp_path):
    def make(grid):
        path = shared_folder(tmp_path) / "u.zarr"
        sharding = sg.Sharding(grid, [[0], [1]])
        sg.save_zarr(path, sg.from_global(cells((4, 6)), sharding, grid))
        if grid.rank == 0:
            chunk = path / "c" / "1" / "1"
            raw = bytearray(chunk.read_bytes())
            raw[9] ^= 4
            chunk.write_bytes(raw)
        sg.all_reduce(1, grid, [0, 1], "sum")
        sg.load_zarr(path, sharding, grid)

    name, text = refused(spmd, make)
    assert name == "DamagedError" and "process 3" in text and "checksum" in text


REFUSED = {
    "a path with something": (lambda a, at: [sg.save_zarr(at / "u", a), sg.save_zarr(at / "u", a)], "nothing is over"),
    "chunks": (lambda a, at: sg.save_zarr(at / "u", a, chunks=[2]), "it must list 2 extents of at least 1"),
    "names": (lambda a, at: sg.save_zarr(at / "u", a, dimension_names=["x"]), "it must list at least 2 names"),
    "attributes": (lambda a, at: sg.save_zarr(at / "u", a, attributes={"x": object()}), "cannot be written as JSON"),
    "a name": (lambda a, at: sg.save_zarr(at / "u", {"../u": a}), "'../u' is no name of an array"),
    "a dtype": (lambda a, at: sg.save_zarr(at / "u", a.astype("m8[s]")), "zarr v3 has bool, float16"),
    "a path": (lambda a, at: sg.save_zarr(7, a), "path is 7; it must be the path of a file or folder"),
    "nothing there": (lambda a, at: sg.load_zarr(at / "u", a.sharding, a.grid), "is no folder; a zarr array is one"),
    "a folder": (lambda a, at: sg.load_zarr(at, a.sharding, a.grid), "is no zarr array"),
    "a group": (
        lambda a, at: [sg.save_zarr(at / "u", {"b": a, "c": a}), sg.load_zarr(at / "u", a.sharding, a.grid)],
        "is a group; pass name=, one of: b, c",
    ),
    "another number of dimensions": (
        lambda a, at: [
            sg.save_zarr(at / "u", {"b": a[0]}),
            sg.load_zarr(at / "u", a.sharding, a.grid, name="b"),
        ],
        "splits dimension 1, but global_shape (6,)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_alike_and_leave_no_part(spmd, tmp_path, case):
    call, words = REFUSED[case]
    text, names = refusal_in_folder(spmd, tmp_path, call)
    assert words in text and names in ([], ["u"])


def test_paths_that_differ_are_refused(spmd, tmp_path):
    def make(grid):
        a = sg.from_global(cells((4, 6)), sg.Sharding(grid, [[0], [1]]), grid)
        sg.save_zarr(shared_folder(tmp_path) / f"u{grid.rank // 3}", a)

    name, text = refused(spmd, make)
    assert name == "MismatchError" and "u0" in text and "u1" in text


def test_metadata_is_that_of_the_specification(spmd, tmp_path):
    def body():
        path = shared_folder(tmp_path) / "u.zarr"
        sg.save_zarr(path, cut("rows", cells((8, 5), "int16")), dimension_names=["y", "x"], attributes={"a": [1]})
        return json.loads((path / "zarr.json").read_text())

    found = spmd(2, body)[0]
    assert found["codecs"] == [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    assert found["data_type"] == "int16" and found["shape"] == [8, 5] and found["dimension_names"] == ["y", "x"]
    assert found["chunk_grid"]["configuration"] == {"chunk_shape": [4, 5]} and found["attributes"] == {"a": [1]}
