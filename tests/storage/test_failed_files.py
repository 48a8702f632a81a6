"""Every system call fails on every rank in turn while files are saved: all ranks raise alike, and nothing is left."""

import shutil

import numpy as np
import pytest
from support.storage.faults import ERRORS, Faulty, Short, fail
from support.storage.layouts import cells, shared_folder
from support.storage.saves import FILES, NEEDED, whole_of

import spmd_grid as sg
from spmd_grid.storage.system import System, replace_system


def outcomes(grid, save):
    """The texts of all ranks' errors, "" of those without one."""
    try:
        save()
        text = ""
    except sg.SpmdError as error:
        text = f"{type(error).__name__}: {error}"
    raw = np.frombuffer(text.encode() + b"\n", np.uint8)
    return sg.all_gather(raw, grid, [0], 0).tobytes().decode().split("\n")[:-1]


def remove_all(folder, grid):
    sg.all_reduce(1, grid, [0], "sum")
    if grid.rank == 0:
        shutil.rmtree(folder)
        folder.mkdir()
    sg.all_reduce(1, grid, [0], "sum")


@pytest.mark.parametrize("kind", FILES)
def test_each_call_fails(spmd, tmp_path, request, kind):
    if kind in NEEDED:
        pytest.importorskip(NEEDED[kind])
    one_of = 1 if request.config.getoption("full") else {"zarr": 5}.get(kind, 2)

    def body():
        folder, grid = shared_folder(tmp_path), sg.init_grid((2,))
        a = sg.from_global(cells((7, 5)), sg.Sharding(grid, [[0]]), grid)
        counted = Faulty()
        replace_system(grid, counted)
        (folder / "counted").mkdir(exist_ok=True)
        FILES[kind](folder / "counted", a)
        counts = sg.all_gather(np.array([len(counted.made)]), grid, [0], 0)
        assert counts.min() >= 3
        trials = [(rank, number) for rank, count in enumerate(counts) for number in range(count)]
        base = folder / "tried"
        base.mkdir(exist_ok=True)
        for i, (rank, number) in enumerate(trials[::one_of]):
            faulty = Faulty(number if grid.rank == rank else None, fail(ERRORS[i % len(ERRORS)]))
            replace_system(grid, faulty)
            texts = outcomes(grid, lambda: FILES[kind](base, a))
            replace_system(grid, System())
            assert len(set(texts)) == 1, (rank, number, texts)
            if texts[0]:
                assert texts[0].startswith("StorageError: save_") and f"(on process {rank})" in texts[0], texts
            else:  # a folder that is on the disk was not closed, or the lock's file stays, which does not matter
                assert grid.rank != rank or faulty.made[number] in ("close", "lock", "unlink")
                assert np.array_equal(whole_of(kind, base, a), cells((7, 5)))
                remove_all(base, grid)
            assert list(base.iterdir()) == [], (rank, number, texts)
            sg.all_reduce(1, grid, [0], "sum")
        replace_system(grid, Short())
        FILES[kind](base, a)
        replace_system(grid, System())
        return np.array_equal(whole_of(kind, base, a), cells((7, 5)))

    assert all(spmd(2, body))
