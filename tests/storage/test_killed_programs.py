"""Programs killed by the system at their calls: what is there is whole, and the next save removes what they left."""

import shutil
import sys

import pytest
from support.jobs import clean_environment, needs_mpiexec, run_job
from support.patience import run_in_time
from support.storage import saves

import spmd_grid as sg

CASES = [(kind, 0) for kind in saves.SAVES] + [(kind, 1) for kind in saves.FILES]


@pytest.mark.parametrize(("kind", "victim"), CASES)
def test_killed_at_every_call(tmp_path, request, kind, victim):
    if kind in saves.NEEDED:
        pytest.importorskip(saves.NEEDED[kind])
    strides = {"hdf5": 7, "vtk": 9, "keep": 31, "commit file": 31}
    stride = 1 if request.config.getoption("full") else strides.get(kind, 17)
    command = [sys.executable, saves.__file__, kind, tmp_path, str(victim), str(stride)]
    ended = run_in_time([str(word) for word in command], limit=120, env=clean_environment())
    n_killed, code = map(int, ended.stdout.split())
    assert code == 0 and n_killed > 1, ended
    steps = set()
    for number in range(0, (n_killed + 1) * stride, stride):
        folder = tmp_path / str(number)
        steps.add(saves.found(kind, folder))
        check_next_save(kind, folder)
    assert steps == ({None, 2} if kind in saves.FILES else {1, 2})


def check_next_save(kind, folder):
    """The next save works, and leaves nothing unfinished, whenever the one before was killed."""
    if kind in saves.FILES and saves.found(kind, folder) == 2:
        return
    if kind == "vtk" and (folder / "u").exists():  # killed between its two names
        with pytest.raises(sg.StorageError, match="u' is there already.*u.pvti is not, .* may have left it"):
            saves.save(kind, folder, 3)
        shutil.rmtree(folder / "u")
    saves.save(kind, folder, 3)
    assert saves.found(kind, folder) == 3
    at = folder / "series" if (folder / "series").exists() else folder
    assert [each.name for each in at.iterdir() if each.name.startswith(".")] == []


JOB = """
import sys
from pathlib import Path
import spmd_grid as sg
from spmd_grid.storage.system import replace_system
from support.storage import saves
from support.storage.faults import Faulty, kill_process

kind, folder, victim, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
grid = sg.init_grid((-1,))
if grid.rank == victim:
    replace_system(grid, Faulty(number, kill_process))
saves.SAVES[kind](folder, saves.array(2, grid))
"""
MPI_CASES = [("zarr", 1, 4), ("beside", 0, 20)]
MPI_CASES += [
    pytest.param(kind, victim, number, marks=pytest.mark.full)
    for kind in saves.SAVES
    for victim in (0, 1)
    for number in range(1, 60, 9)
]


@needs_mpiexec
@pytest.mark.parametrize(("kind", "victim", "number"), MPI_CASES)
def test_a_process_of_a_job_is_killed(tmp_path, kind, victim, number):
    if kind in saves.NEEDED:
        pytest.importorskip(saves.NEEDED[kind])
    program, folder = tmp_path / "job.py", tmp_path / "saved"
    program.write_text(JOB)
    folder.mkdir()
    if kind in saves.OVER_OLD:
        saves.save(kind, folder, 1)
    job = run_job("mpiexec", 2, program, kind, folder, str(victim), str(number))
    found = saves.found(kind, folder)
    assert found == 2 or (job.code != 0 and found == (1 if kind in saves.OVER_OLD else None)), job
    check_next_save(kind, folder)
