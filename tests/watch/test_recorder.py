"""The flight recorder: what it keeps, what others can read of it, and that it is off where nobody asks."""

import numpy as np
import pytest
from support.jobs import run_job

import spmd_grid as sg
from spmd_grid.errors import TransportError
from spmd_grid.transport.launch import run_spmd
from spmd_grid.watch.recorder import BEGUN, DONE, FAILED, RECORDER_BYTES, Recorder, label_in, records_in
from spmd_grid.watch.settings import Settings


class Activity:
    def __init__(self, text):
        self.text = text

    def describe(self):
        return self.text


def test_records_are_read_from_memory():
    memory = np.full(RECORDER_BYTES, 7, np.uint8)
    recorder = Recorder(memory)
    recorder.sign("rank 3 (1, 0)")
    assert label_in(memory) == "rank 3 (1, 0)" and records_in(memory) == [] and recorder.waited(1e9) == 0

    def look():
        [record] = records_in(memory)
        assert (record.number, record.state, record.what) == (1, BEGUN, "first on float64 (2,)")
        assert recorder.waited(record.began + 5) == record.waited(record.began + 5) == 5
        assert not recorder.is_idle
        return "result"

    assert recorder.run(Activity("first"), np.ones(2), look) == "result"
    with pytest.raises(ZeroDivisionError):
        recorder.run(Activity("second"), None, lambda: 1 / 0)
    assert recorder.is_idle
    first, second = records_in(memory)
    assert first.state == DONE and second.state == FAILED and second.what == "second"
    assert first.began <= first.ended <= second.began and second.where.startswith("test_recorder.py:")
    assert recorder.waited(1e9) == second.waited(1e9) == 0


def test_only_the_last_operations_are_kept():
    recorder = Recorder()
    for number in range(1, 151):
        recorder.run(Activity(f"operation {number}"), None, lambda: None)
    kept = recorder.last()
    assert [record.number for record in kept] == list(range(87, 151))
    assert all(record.what == f"operation {record.number}" for record in kept)
    assert [record.number for record in recorder.last(3)] == [148, 149, 150]


def test_long_words_keep_the_place():
    recorder = Recorder()
    recorder.run(Activity("ä\n" * 1000), None, lambda: None)
    [record] = recorder.last()
    assert record.where.startswith("test_recorder.py:") and record.what.startswith("ä ä ä")


def test_waits_that_a_compiled_loop_is_seen_in():
    recorder = Recorder()
    recorder.see(Activity("loop"), ("wire", 1))
    recorder.see(Activity("loop"), ("wire", 1))
    [record] = recorder.last()
    assert record.state == BEGUN and recorder.waited(1e9) == record.ended - record.began
    recorder.see(Activity("loop"), ("wire", 2))
    recorder.run(Activity("operation"), None, lambda: None)
    assert [(r.number, r.state, r.what) for r in recorder.last()] == [
        (1, DONE, "loop"),
        (2, DONE, "loop"),
        (3, DONE, "operation"),
    ]


# -- when it is there ----------------------------------------------------------------------------------------------


def what_is_watched(**asked):
    grid = sg.init_grid((-1,))
    before = grid.recorder
    sg.init_grid((-1,), **asked)
    sg.all_reduce(1, grid, [0], "sum")
    recorder = grid.recorder
    return before is not None, recorder is not None and recorder.check, 0 if recorder is None else recorder.number


def test_simulated_ranks_are_checked_unless_asked_not_to(monkeypatch):
    monkeypatch.delenv("SPMD_GRID_CHECK", raising=False)
    assert run_spmd(what_is_watched, ranks=2) == [(True, True, 1)] * 2
    assert run_spmd(what_is_watched, ranks=2, check=False) == [(False, False, 0)] * 2
    assert run_spmd(what_is_watched, ranks=2, check=False, timeout=60) == [(True, False, 1)] * 2
    monkeypatch.setenv("SPMD_GRID_CHECK", "0")
    assert run_spmd(what_is_watched, ranks=2) == [(False, False, 0)] * 2
    assert run_spmd(what_is_watched, ranks=2, check=True) == [(True, True, 1)] * 2
    assert run_spmd(lambda: what_is_watched(check=True), ranks=2) == [(False, True, 1)] * 2
    assert run_spmd(lambda: what_is_watched(timeout=60), ranks=2) == [(False, False, 1)] * 2


@pytest.mark.parametrize(
    "asked", [{"check": 1}, {"check": "yes"}, {"timeout": 0}, {"timeout": -1.0}, {"timeout": True}, {"timeout": "5"}]
)
def test_what_cannot_be_asked_for(asked):
    name = next(iter(asked))
    for call in (
        lambda: run_spmd(what_is_watched, ranks=2, **asked),
        lambda: run_spmd(lambda: what_is_watched(**asked), ranks=2),
    ):
        with pytest.raises(TransportError, match=f"{name}={asked[name]!r}"):
            call()


@pytest.mark.parametrize(
    ("name", "text"),
    [("SPMD_GRID_TIMEOUT", "soon"), ("SPMD_GRID_TIMEOUT", "0"), ("SPMD_GRID_TIMEOUT", "nan"), ("SPMD_GRID_CHECK", "y")],
)
def test_what_the_environment_cannot_mean(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(TransportError, match=f"{name}='{text}'"):
        Settings.from_environment()


ASKING = r"""
import os, sys
rank = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK"))
os.environ.update([item.split("=") for item in sys.argv[1].split(",") if item] if rank == 1 else [])
import spmd_grid as sg
from spmd_grid.transport.mpi import open_world
try:
    grid = sg.init_grid((-1,))
except sg.SpmdError as error:
    sys.stdout.write(f"{rank}: {error}\n")
    sys.exit()
def tell():
    sg.all_reduce(1, grid, [0], "sum")
    recorder = grid.recorder
    found = None if recorder is None else (recorder.check, recorder.number)
    sys.stdout.write(f"{rank} {found} {open_world().world.watched.timeout}\n")
tell()
if len(sys.argv) > 2:
    sg.init_grid((-1,), timeout=60 if rank else 50, check=rank == 0 or None)
    tell()
"""


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (["", "more"], ["0 (True, 1) 50.0", "0 None None", "1 (True, 1) 50.0", "1 None None"]),
        (["SPMD_GRID_CHECK=1,SPMD_GRID_TIMEOUT=7"], ["0 (True, 1) 7.0", "1 (True, 1) 7.0"]),
        (["SPMD_GRID_TIMEOUT=x"], [f"{rank}: SPMD_GRID_TIMEOUT='x'; it must be the seconds" for rank in (0, 1)]),
    ],
)
def test_processes_agree_on_what_is_watched(tmp_path, asked, found):
    program = tmp_path / "asking.py"
    program.write_text(ASKING)
    job = run_job("mpiexec", 2, program, *asked)
    lines = sorted(job.out.splitlines())
    assert len(lines) == len(found) and all(map(str.startswith, lines, sorted(found))), job
