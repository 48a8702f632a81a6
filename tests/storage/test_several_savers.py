"""Several programs that save to one path at once, while it is read: no checkpoint of another is lost or mixed."""

import itertools
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.jobs import clean_environment, needs_mpiexec, run_job
from support.same_bytes import same_bytes
from support.storage.shared import common_folder, values

import spmd_grid as sg
from spmd_grid.storage.checkpoint.folders import remove_checkpoint
from spmd_grid.storage.paths import Folders
from spmd_grid.storage.system import System, replace_system

WANT = values((50, 3), "f4")

SAVER = """
import sys
import spmd_grid as sg
from support.storage.shared import values

def body():
    grid = sg.init_grid((2,))
    for _ in range(2):
        a = sg.from_global(values((50, 3), "f4") + int(sys.argv[2]), sg.Sharding(grid, [[], [0]]), grid)
        path = sg.save(sys.argv[1], {"a": a, "step": int(sys.argv[2])}, keep=3, block_bytes=64, stage_bytes=256)
        if grid.rank == 0:
            print(path.name)

sg.run_spmd(body, ranks=2)
"""


def load(folder):
    """The step of the checkpoint, all of whose cells are of that step, on two simulated ranks."""

    def body():
        grid = sg.init_grid((2,))
        state = sg.load(folder, {"a": sg.Sharding(grid, [[0]])}, grid)
        np.testing.assert_array_equal(state["a"].to_global(), WANT + state["step"])
        return state["step"]

    return sg.run_spmd(body, ranks=2)[0]


def test_two_programs_save_while_a_third_loads(tmp_path):
    program, folder = tmp_path / "saver.py", tmp_path / "series"
    program.write_text(SAVER)
    command = [sys.executable, program, folder]
    started = [
        subprocess.Popen([*command, str(step)], stdout=subprocess.PIPE, text=True, env=clean_environment())
        for step in (1, 2)
    ]
    loads = 0
    while any(each.poll() is None for each in started):
        if folder.exists() and any(each.name.startswith("save-") for each in folder.iterdir()):
            load(folder)
            loads += 1
    names = [name for each in started for name in each.communicate()[0].split()]
    assert [each.returncode for each in started] == [0, 0]
    assert len(set(names)) == len(names) == 4 and loads > 0
    assert 3 <= len(list(folder.iterdir())) <= 4 and sg.verify(folder) == []


# Both have written all of their first checkpoint before either publishes it; each then loads what is the newest.
JOB = """
import sys
from pathlib import Path
import numpy as np
import spmd_grid as sg
from spmd_grid.storage.system import System, replace_system
from support.patience import until
from support.storage.shared import values

folder, mine, other = Path(sys.argv[1]), int(sys.argv[2]), 3 - int(sys.argv[2])

class Together(System):
    def rename(self, source, target):
        (folder.parent / f"written by {mine}").touch()
        assert until((folder.parent / f"written by {other}").exists, limit=60)
        super().rename(source, target)

grid = sg.init_grid((-1,))
replace_system(grid, Together())
want = values((50, 3), "f4")
for _ in range(2):
    a = sg.from_global(want + mine, sg.Sharding(grid, [[], [0]]), grid)
    path = sg.save(folder, {"a": a, "step": mine}, block_bytes=64, stage_bytes=256)
    state = sg.load(folder, {"a": sg.Sharding(grid, [[0]])}, grid, stage_bytes=256)
    np.testing.assert_array_equal(state["a"].to_global(), want + state["step"])
    if grid.rank == 0:
        print(path.name)
"""


@needs_mpiexec
def test_two_jobs_save_and_load(tmp_path):
    program, folder = tmp_path / "job.py", tmp_path / "series"
    program.write_text(JOB)
    with ThreadPoolExecutor(2) as pool:
        jobs = list(pool.map(lambda mine: run_job("mpiexec", 2, program, folder, str(mine)), (1, 2)))
    assert [each.code for each in jobs] == [0, 0], jobs
    saved = {name: mine for mine, job in enumerate(jobs, 1) for name in job.out.split()}
    names = [f"save-{number:06d}" for number in range(1, 5)]
    assert sorted(saved) == sorted(os.listdir(folder)) == names
    assert sg.latest(folder) == folder / names[-1]
    for name in names:
        assert sg.verify(folder / name) == [] and load(folder / name) == saved[name]


class Superseded(System):
    """Another program, which keeps one checkpoint, publishes the second one and removes the first one.

    That happens as this process opens a file of the first one: the ``at``-th time, from 0.
    """

    def __init__(self, at):
        self.at, self.opened = at, 0

    def open(self, path, flags):
        if path.parent.name == "save-000001" and not flags & os.O_RDWR:
            if self.opened == self.at:
                shutil.copytree(path.parent, path.parent.with_name("save-000002"))
                remove_checkpoint(Folders(System(), "save"), path.parent)
            self.opened += 1
        return super().open(path, flags)


@pytest.mark.parametrize("victim", [0, 1])
def test_another_program_keeps_only_its_newer_one(spmd, victim):
    """The save ends, and `latest` and `load` find what is there, whenever the newer checkpoint replaces the older."""

    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        a = sg.from_global(WANT, rows, grid)
        whole = ["save-000001", "save-000002"]
        operations = {
            "save": lambda series: sg.save(series, {"a": a}, keep=1, block_bytes=64).name == whole[0],
            "latest": lambda series: sg.latest(series, grid).name in whole,
            "load": lambda series: same_bytes(sg.load(series, {"a": rows}, grid)["a"].local, a.local),
        }
        n_times = []
        for name, operation in operations.items():
            for at in itertools.count():
                with common_folder(grid) as series:
                    if name != "save":
                        sg.save(series, {"a": a}, block_bytes=64)
                    replace_system(grid, Superseded(at if grid.rank == victim else None))
                    assert operation(series), (name, at)
                    replace_system(grid, System())
                    sg.all_reduce(1, grid, None, "sum")
                    found = sg.latest(series, grid).name
                if found == whole[0]:  # it has opened no more files
                    break
            n_times.append(at)
        return n_times

    assert all(min(each) > 0 for each in spmd(2, body))
