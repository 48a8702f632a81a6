"""Images for ParaView hold every cell once, as a small reader and the VTK library find them."""

import numpy as np
import pytest
from support.sharded_arrays import refused
from support.storage.layouts import CUTS, cells, cut, refusal_in_folder, shared_folder
from support.storage.vti import read_whole

import spmd_grid as sg

IMAGES = [case for case in CUTS if case not in ("no cells", "no dimensions")]


@pytest.mark.parametrize("dtype", ["float64", "uint16", "bool", ">f4"])
@pytest.mark.parametrize("case", IMAGES)
def test_every_cell_is_there_once(spmd, tmp_path, case, dtype):
    def body():
        path, whole = shared_folder(tmp_path) / "u.pvti", cells(CUTS[case].shape, dtype)
        sg.save_vtk(path, cut(case, whole))
        found, _ = read_whole(path)
        return list(found) == ["u"] and np.array_equal(found["u"], whole)

    assert all(spmd(CUTS[case].ranks, body))


def two_arrays(path, **options):
    """Two arrays in one image, cut in different ways, with cells that are no cubes; their values."""
    grid = sg.init_grid((3,))
    u, v = cells((4, 5, 6)), cells((4, 5, 6), "int32") + 7
    rows, columns = (sg.Sharding(grid, axes) for axes in ([[0]], [[], [], [0]]))
    arrays = {"u": sg.from_global(u, rows, grid), "v": sg.from_global(v, columns, grid)}
    sg.save_vtk(path, arrays, origin=[1, 2, 3], spacing=[0.5, 2, 0.25], **options)
    return u, v


@pytest.mark.parametrize("stage_bytes", [1, 300, 1 << 20])
def test_several_arrays_and_coordinates(spmd, tmp_path, stage_bytes):
    def body():
        path = shared_folder(tmp_path) / "fields.pvti"
        u, v = two_arrays(path, stage_bytes=stage_bytes)
        found, place = read_whole(path)
        assert place == ("2.875 1.0 0.75", "0.25 2.0 0.5")  # corners of cells, x first
        assert sorted(each.name for each in path.parent.iterdir()) == ["fields", "fields.pvti"]
        return np.array_equal(found["u"], u) and np.array_equal(found["v"], v)

    assert all(spmd(3, body))


def test_vtk_reads_it(spmd, tmp_path):
    pytest.importorskip("vtk", reason="vtk is not installed (140 MB); the small reader has checked the files")

    def body():
        path = shared_folder(tmp_path) / "fields.pvti"
        u, v = two_arrays(path)
        return path, u, v

    path, u, v = spmd(3, body)[0]
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOXML import vtkXMLPImageDataReader

    reader = vtkXMLPImageDataReader()
    reader.SetFileName(str(path))
    reader.Update()
    image = reader.GetOutput()
    assert image.GetDimensions() == (7, 6, 5) and image.GetSpacing() == (0.25, 2.0, 0.5)
    centre = np.array(image.GetOrigin()) + np.array(image.GetSpacing()) / 2
    assert centre.tolist() == [3, 2, 1]
    for name, want in (("u", u), ("v", v)):
        found = vtk_to_numpy(image.GetCellData().GetArray(name)).reshape(want.shape)
        assert np.array_equal(found, want) and found.dtype == want.dtype


REFUSED = {
    "another ending": (lambda a, at: sg.save_vtk(at / "u.vtk", a), "its name must end in .pvti"),
    "no array": (lambda a, at: sg.save_vtk(at / "u.pvti", np.ones(3)), "it must be a ShardedArray"),
    "no arrays": (lambda a, at: sg.save_vtk(at / "u.pvti", {}), "at least one must be given"),
    "another shape": (
        lambda a, at: sg.save_vtk(at / "u.pvti", {"u": a, "v": a[1:]}),
        "'v' has shape (3, 6), 'u' has (4, 6)",
    ),
    "complex": (lambda a, at: sg.save_vtk(at / "u.pvti", a.astype("c8")), "has dtype complex64; VTK has int8"),
    "spacing": (lambda a, at: sg.save_vtk(at / "u.pvti", a, spacing=[1, 0]), "must be one or 2 finite positive"),
    "a missing folder": (lambda a, at: sg.save_vtk(at / "x" / "u.pvti", a), "No such file or directory"),
    "no cells": (lambda a, at: sg.save_vtk(at / "u.pvti", a[:0]), "one to three dimensions of cells"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_leave_nothing(spmd, tmp_path, case):
    call, words = REFUSED[case]
    text, names = refusal_in_folder(spmd, tmp_path, call)
    assert words in text and names == []


def test_nothing_is_overwritten(spmd, tmp_path):
    def make(grid):
        folder = shared_folder(tmp_path)
        a = sg.from_global(cells((4, 6)), sg.Sharding(grid, [[0], [1]]), grid)
        sg.save_vtk(folder / "u.pvti", a)
        sg.save_vtk(folder / "u.pvti", a)

    name, text = refused(spmd, make)
    assert name == "StorageError" and "u.pvti' is there already; nothing is overwritten" in text
