"""All kinds of saving, by name, and what is found afterwards; a program that is killed at every call of one of them."""

import os
import sys
from pathlib import Path

import numpy as np

import spmd_grid as sg
from spmd_grid.storage.system import replace_system
from support.storage.faults import Faulty, kill_process
from support.storage.layouts import cells
from support.storage.vti import read_whole

WHOLE = cells((7, 5))
SMALL = {"block_bytes": 16, "stage_bytes": 64}


def _checkpoint(**options):
    def save(folder, a):
        saving = sg.save(folder / "series", {"a": a}, **SMALL, **options)
        return saving.wait() if isinstance(saving, sg.Saving) else saving

    return save


FILES = {
    "zarr": lambda folder, a: sg.save_zarr(folder / "u.zarr", {"u": a}, chunks=(3, 4)),
    "vtk": lambda folder, a: sg.save_vtk(folder / "u.pvti", {"u": a}),
    "hdf5": lambda folder, a: sg.save_hdf5(folder / "u.h5", {"u": a}),
}
OVER_OLD = {
    "npy": lambda folder, a: sg.save_npy(folder / "u.npy", a, stage_bytes=64),
    "checkpoint": _checkpoint(),
    "keep": _checkpoint(keep=1),
    "commit file": _checkpoint(commit="file"),
    "beside": _checkpoint(wait=False),
}
SAVES = FILES | OVER_OLD
NEEDED = {"zarr": "zarr", "hdf5": "h5py"}
PATHS = {"zarr": "u.zarr", "vtk": "u.pvti", "hdf5": "u.h5", "npy": "u.npy"}


def whole_of(kind, folder, a):
    """The cells that were saved, on all ranks of the array ``a``."""
    if kind == "zarr":
        return sg.load_zarr(folder / "u.zarr", a.sharding, a.grid, name="u").to_global()
    if kind == "vtk":
        return read_whole(folder / "u.pvti")[0]["u"]
    if kind == "hdf5":
        return sg.load_hdf5(folder / "u.h5", "u", a.sharding, a.grid).to_global()
    if kind == "npy":
        return sg.load_npy(folder / "u.npy", a.sharding, a.grid).to_global()
    assert sg.verify(folder / "series", a.grid) == []
    return sg.load(folder / "series", {"a": a.sharding}, a.grid)["a"].to_global()


def array(step, grid):
    return sg.from_global(WHOLE + step, sg.Sharding(grid, [[], [0]]), grid)


def save(kind, folder, step, number=None, victim=0):
    """Save on two simulated ranks; the process is killed at call ``number`` of the victim."""

    def body():
        grid = sg.init_grid((2,))
        if number is not None and grid.rank == victim:
            replace_system(grid, Faulty(number, kill_process))
        SAVES[kind](folder, array(step, grid))

    sg.run_spmd(body, ranks=2)


def found(kind, folder):
    """The step whose cells are there; None if there are none."""
    if kind in PATHS and not (folder / PATHS[kind]).exists():
        return None

    def body():
        grid = sg.init_grid((3,))
        return whole_of(kind, folder, sg.zeros((7, 5), sg.Sharding(grid, [[0]]), grid))

    cells_there = sg.run_spmd(body, ranks=3)[0]
    (step,) = np.unique(cells_there - WHOLE)
    return int(step)


def kill_everywhere(kind, root, victim, stride):
    """In ``root/NUMBER`` the rest of a save that was killed at each call; prints how many there are."""
    for number in range(0, 1000, stride):
        folder = root / str(number)
        child = os.fork()
        if child == 0:
            folder.mkdir()
            if kind in OVER_OLD:
                save(kind, folder, 1)
            save(kind, folder, 2, number, victim)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            print(number // stride, os.waitstatus_to_exitcode(status))
            return


if __name__ == "__main__":
    kill_everywhere(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
