"""Programs that end before wait() of a save beside them: they say so, end at once, and publish nothing."""

import os

import pytest
from support.jobs import needs_mpiexec, run_job
from support.storage.shared import values

import spmd_grid as sg

WORDS = "ended before wait() of the save to {} (wait=False); it was not published"


def save(folder, step, **options):
    grid = sg.init_grid((2,))
    a = sg.from_global(values((50, 3), "f4"), sg.Sharding(grid, [[], [0]]), grid)
    return sg.save(folder, {"a": a, "step": step}, block_bytes=64, stage_bytes=256, **options)


@pytest.mark.parametrize("commit", ["rename", "file"])
def test_simulated_ranks(tmp_path, capsys, commit):
    def body():
        save(tmp_path, 1)
        save(tmp_path, 2, wait=False, commit=commit)  # the next one waits for it
        return save(tmp_path, 3, wait=False, commit=commit)

    saving = sg.run_spmd(body, ranks=2)[0]
    assert capsys.readouterr().err.count(WORDS.format(tmp_path / "save-000003")) == 1
    assert sorted(os.listdir(tmp_path)) == ["save-000001", "save-000002"] and sg.verify(tmp_path) == []
    with pytest.raises(sg.StorageError, match="ended before wait"):
        saving.finish()
    assert sg.run_spmd(lambda: save(tmp_path, 4), ranks=2)[0] == tmp_path / "save-000003"
    assert capsys.readouterr().err == ""


def test_saves_that_were_waited_for_are_quiet(tmp_path, capsys):
    sg.run_spmd(lambda: save(tmp_path, 1, wait=False).wait(), ranks=2)
    assert capsys.readouterr().err == "" and sg.verify(tmp_path) == []


PROGRAM = """
import sys
import spmd_grid as sg
from spmd_grid.storage.system import replace_system
from support.storage.faults import Stuck
from support.storage.shared import values

grid = sg.init_grid((-1,))
a = sg.from_global(values((9, 3), "f4"), sg.Sharding(grid, [[], [0]]), grid)
sg.save(sys.argv[1], {"a": a, "step": 1})
if grid.rank == int(sys.argv[2]):
    replace_system(grid, Stuck())
sg.save(sys.argv[1], {"a": a + 1, "step": 2}, wait=False)
"""


@needs_mpiexec
@pytest.mark.parametrize(("transport", "stuck"), [("mpiexec", 0), ("simulated", 1)])
def test_programs_whose_disk_takes_nothing_more(tmp_path, transport, stuck):
    program, folder = tmp_path / "program.py", tmp_path / "series"
    program.write_text(PROGRAM)
    job = run_job(transport, 2, program, folder, str(stuck))
    assert job.code == 0 and job.err.count(WORDS.format(folder / "save-000002")) == 1, job
    assert os.listdir(folder) == ["save-000001"] and sg.verify(folder) == []
