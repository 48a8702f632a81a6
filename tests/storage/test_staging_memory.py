"""Memory besides the arrays: told beforehand, and no more than that is used, by a program that looks at its peak."""

import sys

import pytest
from support.jobs import clean_environment
from support.patience import run_in_time
from support.storage.shared import LAYOUTS, common_folder, values

import spmd_grid as sg


@pytest.mark.parametrize("stage_bytes", [256, 1000, 1 << 20])
def test_what_is_staged_is_told_beforehand(spmd, stage_bytes):
    def body():
        grid = sg.init_grid((2, 3))
        options = {"block_bytes": 64, "stage_bytes": stage_bytes}
        found = []
        with common_folder(grid) as folder:
            for axes, more in LAYOUTS.values():
                a = sg.from_global(values((9, 7), "f4"), sg.Sharding(grid, axes, **more), grid)
                state = {"a": a, "plain": values((30,), "f8"), "step": 1}
                told = sg.staged_bytes(state, **options)
                saving = sg.save(folder, state, wait=False, **options)
                assert told == saving.staged_bytes <= stage_bytes // 2, axes
                saving.wait()
                found.append(told)
        return found

    found = spmd(6, body)
    if stage_bytes == 1 << 20:  # all is staged, once
        assert {sum(each) for each in zip(*found)} == {9 * 7 * 4 + 30 * 8}


PROGRAM = """
import shutil
import tempfile
from pathlib import Path
import spmd_grid as sg

MIB = 1 << 20

def body(folder):
    grid = sg.init_grid((2,))
    columns, rows = sg.Sharding(grid, [[], [0]]), sg.Sharding(grid, [[0]])
    small, before = {"block_bytes": MIB, "stage_bytes": 8 * MIB}, 0

    def grown(what, *arrays):
        # by as much has the peak of memory grown, beside these arrays
        nonlocal before
        sg.all_reduce(1, grid, None, "sum")
        status = open("/proc/self/status").read()
        peak = 1024 * int(status.partition("VmHWM:")[2].split()[0])
        if grid.rank == 0:
            print(what, peak - before - sum(2 * each.local.nbytes for each in arrays))
        sg.all_reduce(1, grid, None, "sum")
        before = max(before, peak)

    def saved(a, wait, **options):
        saving = sg.save(folder, {"a": a}, wait=wait, **options)
        return saving if wait else saving.wait()

    files = {
        "npy": lambda a: sg.save_npy(folder + "/a.npy", a, stage_bytes=8 * MIB),
        "vtk": lambda a: sg.save_vtk(folder + "/a.pvti", {"a": a}, stage_bytes=8 * MIB),
        "zarr": lambda a: sg.save_zarr(folder + "/a.zarr", {"a": a}, chunks=(256, 256), stage_bytes=8 * MIB),
    }

    def removed():
        sg.all_reduce(1, grid, None, "sum")
        for each in Path(folder).glob("a*") if grid.rank == 0 else ():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        sg.all_reduce(1, grid, None, "sum")

    a = sg.zeros((1 << 9, 1 << 9), columns, grid)
    for save in files.values():
        save(a)
    removed()
    for wait in (True, False):  # what is loaded at the first use
        sg.load(saved(a, wait, **small), {"a": rows}, grid, stage_bytes=8 * MIB)
    a = sg.full((3 << 11, 1 << 11), columns, grid, fill_value=1.5)
    grown("start")
    saved(a, True, **small)
    grown("save")
    path = saved(a, False, **small)
    grown("beside")
    b = sg.load(path, {"a": columns}, grid, stage_bytes=8 * MIB)["a"]
    grown("load", b)
    for what, save in files.items():
        save(a)
        grown(what)
    saved(a, False, block_bytes=MIB)
    grown("more")

with tempfile.TemporaryDirectory() as made:
    sg.run_spmd(body, made, ranks=2)
"""


def test_peak_memory(tmp_path):
    """Two ranks of 48 MiB each; a rank may use 8 MiB besides, and 64 MiB in the end, half of it for copies.

    Files of other programs are cut in rows and in chunks, the array in columns: all cells move."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = run_in_time([sys.executable, str(program)], limit=120, env=clean_environment())
    assert ended.returncode == 0, ended
    grown = {what: int(n) for what, n in (line.split() for line in ended.stdout.splitlines())}
    both, rest = 2 * (8 << 20), 4 << 20  # of the interpreter
    bounded = [grown[what] for what in ("save", "beside", "load", "npy", "vtk", "zarr")]
    assert all(n <= both + rest for n in bounded), grown
    assert grown["more"] >= both, grown  # a measure that sees what is used
