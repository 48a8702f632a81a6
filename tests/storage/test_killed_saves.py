"""Ranks killed at every system call of a save: the newest complete checkpoint loads, and the next save works."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from support.jobs import needs_mpiexec, run_job
from support.storage.faults import Dead, DeadWithoutRename, Killed
from support.storage.shared import values

import spmd_grid as sg
from spmd_grid.storage.system import replace_system

SMALL = {"block_bytes": 16, "stage_bytes": 64}
WANT = values((5, 3), "f4")


def save(folder, step, system=None, **options):
    grid = sg.init_grid((-1,))
    if system is not None:
        replace_system(grid, system(grid.rank))
    a = sg.from_global(WANT + step, sg.Sharding(grid, [[], [0]]), grid)
    saving = sg.save(folder, {"a": a, "step": step}, **SMALL, **options)
    return saving.wait() if isinstance(saving, sg.Saving) else saving


def load(folder):
    """The step of the newest checkpoint, on another number of ranks."""

    def body():
        grid = sg.init_grid((3,))
        state = sg.load(folder, {"a": sg.Sharding(grid, [[0]])}, grid, stage_bytes=64)
        np.testing.assert_array_equal(state["a"].to_global(), WANT + state["step"])
        return state["step"]

    assert sg.verify(folder) == []
    return sg.run_spmd(body, ranks=3)[0]


def killed(folder, victims, number, dead=Dead, **options):
    """Whether a save of step 2 was killed at this call of the first of the victims."""
    fates = [[] for _ in range(2)] if len(victims) == 1 else [[]] * 2

    def system(rank):
        return dead(number if rank == victims[0] else None, fates[rank])

    try:
        sg.run_spmd(lambda: save(folder, 2, system, **options), ranks=2)
    except BaseException as error:
        if not any(fates):
            raise
        assert isinstance(error, Killed | sg.SpmdError), error
        return True
    return any(fates)


@pytest.mark.parametrize(
    ("victims", "options"),
    [
        ([0], {}),
        ([1], {}),
        ([0, 1], {}),
        ([0, 1], {"commit": "file"}),
        ([0, 1], {"dead": DeadWithoutRename}),
        ([0], {"keep": 1}),
        ([1], {"wait": False}),
    ],
)
def test_killed_at_every_call(victims, options, request):
    steps = set()
    stride = 1 if request.config.getoption("full") else 3 if not options else 5
    with tempfile.TemporaryDirectory() as made:
        for number in range(0, 400, stride):
            folder = Path(made) / str(number)
            sg.run_spmd(save, folder, 1, ranks=2)
            was_killed = killed(folder, victims, number, **options)
            steps.add(load(folder))
            if number % 3 == 0:
                assert sg.run_spmd(save, folder, 3, ranks=2)[0].name > "save-000001"
                assert load(folder) == 3
            if not was_killed:
                break
        else:
            pytest.fail("a save makes more than 400 system calls")
    assert steps == {1, 2}


JOB = """
import sys
import numpy as np
import spmd_grid as sg
from spmd_grid.storage.system import replace_system
from support.storage.faults import Faulty, kill_process
from support.storage.shared import values

folder, victims, number = sys.argv[1], [int(each) for each in sys.argv[2].split(",")], int(sys.argv[3])
grid = sg.init_grid((-1,))
a = sg.from_global(values((5, 3), "f4") + 2, sg.Sharding(grid, [[], [0]]), grid)
replace_system(grid, Faulty(number if grid.rank in victims else None, kill_process))
sg.save(folder, {"a": a, "step": 2}, block_bytes=16, stage_bytes=64)
"""

# Calls of the first process: 3 makes the folder, 20 is among those of the array, 30 of the manifest, and 35 of the end.
MPI_CASES = [("1", 4), ("0,1", 12), ("0", 30)]
MPI_CASES += [pytest.param(ranks, n, marks=pytest.mark.full) for ranks in ("0", "1", "0,1") for n in range(45)]


@needs_mpiexec
@pytest.mark.parametrize(("victims", "number"), MPI_CASES)
def test_processes_killed_by_the_system(tmp_path, victims, number):
    folder = tmp_path / "series"
    sg.run_spmd(save, folder, 1, ranks=2)
    program = tmp_path / "job.py"
    program.write_text(JOB)
    job = run_job("mpiexec", 2, program, folder, victims, str(number))
    assert load(folder) in (1, 2) and (job.code != 0 or load(folder) == 2), job
    sg.run_spmd(save, folder, 3, ranks=2)
    assert load(folder) == 3
