"""Every system call fails on every rank in turn: all ranks raise the same error, and what was saved before is whole."""

import errno
import os

import numpy as np
import pytest
from support.same_bytes import same_bytes
from support.storage.faults import ERRORS, Faulty, NoRename, Short, fail
from support.storage.shared import common_folder, values

import spmd_grid as sg
from spmd_grid.storage.system import System, replace_system

SMALL = {"block_bytes": 16, "stage_bytes": 64}


def outcomes(grid, operation):
    """The texts of all ranks' errors, "" of those without one."""
    try:
        operation()
        text = ""
    except sg.SpmdError as error:
        text = f"{type(error).__name__}: {error}"
    raw = np.frombuffer(text.encode() + b"\n", np.uint8)
    return sg.all_gather(raw, grid, None, 0).tobytes().decode().split("\n")[:-1]


def calls_of(grid, operation):
    """The system calls that each rank makes, as (rank, number)."""
    counted = Faulty()
    replace_system(grid, counted)
    operation()
    replace_system(grid, System())
    counts = sg.all_gather(np.array([len(counted.made)]), grid, None, 0)
    assert counts.min() > 5
    return [(rank, number) for rank, count in enumerate(counts) for number in range(count)]


def states(grid):
    first = sg.from_global(values((5, 3), "f4"), sg.Sharding(grid, [[], [0]]), grid)
    return {"a": first, "n": np.arange(3), "step": 1}, {"a": first + 1, "n": np.arange(3), "step": 2}


def check_newest(folder, old, new, grid):
    """The newest checkpoint is whole: the old one or the new one.  Returns its step."""
    assert sg.verify(folder, grid) == []
    found = sg.load(folder, {"a": old["a"].sharding}, grid, stage_bytes=64)
    want = {1: old, 2: new}[found["step"]]
    assert same_bytes(found["a"].local, want["a"].local)
    return found["step"]


# By options: of how many calls one fails by default.
OPTIONS = [({}, 1), ({"keep": 2}, 5), ({"commit": "file"}, 3), ({"wait": False}, 3)]


@pytest.mark.parametrize(("options", "one_of"), OPTIONS)
def test_each_call_of_a_save_fails(spmd, request, options, one_of):
    one_of = 1 if request.config.getoption("full") else one_of

    def body():
        grid = sg.init_grid((2,))
        old, new = states(grid)
        old, new = ({"a": state["a"], "step": state["step"]} for state in (old, new))

        def save():
            saving = sg.save(folder, new, **SMALL, **options)
            return saving.wait() if isinstance(saving, sg.Saving) else saving

        with common_folder(grid) as folder:
            sg.save(folder, old, **SMALL)
            trials = calls_of(grid, save)
            for i, (rank, number) in enumerate(trials[::one_of]):
                before = sg.latest(folder, grid)
                code = ERRORS[i % len(ERRORS)]
                faulty = Faulty(number if grid.rank == rank else None, fail(code))
                replace_system(grid, faulty)
                texts = outcomes(grid, save)
                replace_system(grid, System())
                assert len(set(texts)) == 1, texts
                after = sg.latest(folder, grid)
                assert check_newest(folder, old, new, grid) == 2 and after.name >= before.name
                if texts[0]:
                    assert errno.errorcode[code] in texts[0] and f"on process {rank}" in texts[0]
                if not texts[0] or "rename" in faulty.made[:number]:  # what failed came after publishing
                    assert after != before or grid.rank != rank
            save()
            sg.all_reduce(1, grid, None, "sum")

    spmd(2, body)


def test_each_call_of_a_load_fails(spmd, each_path):
    def body():
        grid = sg.init_grid((2,))
        old, new = states(grid)
        with common_folder(grid) as folder:
            sg.save(folder, old, **SMALL)
            load = lambda: sg.load(folder, {"a": old["a"].sharding}, grid, stage_bytes=64)  # noqa: E731
            for rank, number in calls_of(grid, load):
                replace_system(grid, Faulty(number if grid.rank == rank else None, fail(errno.EIO)))
                texts = outcomes(grid, load)
                replace_system(grid, System())
                assert len(set(texts)) == 1 and ("EIO" in texts[0] or not texts[0]), texts
            assert check_newest(folder, old, new, grid) == 1

    spmd(2, body)


@pytest.mark.parametrize("make", [Short, NoRename])
def test_short_writes_and_folders_that_cannot_be_renamed(spmd, make):
    def body():
        grid = sg.init_grid((2,))
        old, new = states(grid)
        with common_folder(grid) as folder:
            replace_system(grid, make())
            sg.save(folder, old, **SMALL)
            path = sg.save(folder, new, **SMALL)
            assert check_newest(folder, old, new, grid) == 2
            assert sorted(os.listdir(folder)) == ["save-000001", "save-000002"]
            replace_system(grid, System())
            again = sg.save(folder, new, **SMALL, commit="file")
            for each in path.iterdir():
                same = each.read_bytes() == (again / each.name).read_bytes()
                assert same, each.name

    spmd(2, body)


def test_each_call_of_npy_files_fails(spmd):
    def body():
        grid = sg.init_grid((2,))
        old, new = [state["a"] for state in states(grid)]
        with common_folder(grid) as folder:
            path = folder / "a.npy"
            for operation in (
                lambda: sg.save_npy(path, new, stage_bytes=64),
                lambda: sg.load_npy(path, new.sharding, grid, stage_bytes=64),
            ):
                sg.save_npy(path, old)
                for rank, number in calls_of(grid, operation):
                    sg.save_npy(path, old)
                    replace_system(grid, Faulty(number if grid.rank == rank else None, fail(errno.ENOSPC)))
                    texts = outcomes(grid, operation)
                    replace_system(grid, System())
                    assert len(set(texts)) == 1 and ("ENOSPC" in texts[0] or not texts[0]), texts
                    found = sg.load_npy(path, old.sharding, grid).to_global()
                    assert any(same_bytes(found, each.to_global()) for each in (old, new))
                    assert {each.suffix for each in folder.iterdir()} <= {".npy", ".lock"}
                    sg.all_reduce(1, grid, None, "sum")
                    sg.save_npy(path, old)  # removes a lock that could not be removed
                    assert [each.name for each in folder.iterdir()] == ["a.npy"]
                    sg.all_reduce(1, grid, None, "sum")  # before another rank makes the next hidden file

    spmd(2, body)
