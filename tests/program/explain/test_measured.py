"""Events of a trace are matched with the communications of a program by name and by their order within a run."""

import json

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.program.explain.measured import measured

GRID = sg.Grid((2, 2))


def sorted_and_doubled(u, x):
    v = np.sort(u)
    y = x * 2
    return v, y


@pytest.fixture
def part():
    """Sorted cells, which a trace does not name, and two arrays that are made whole."""
    program = sg.trace(sorted_and_doubled, sg.ArraySpec((64,)), sg.ArraySpec((6, 6)))
    blocks = sg.Sharding(GRID, [[0], [1]])
    return sg.partition(program, GRID, [sg.Sharding(GRID, [[0]]), blocks], sg.Sharding(GRID, []))


def written(folder, rank, events):
    """The trace of a process: (call, microseconds) by event."""
    head = {"name": "thread_name", "ph": "M", "args": {"name": f"rank {rank}", "size": 2, "machine": "m", "clock": 0.0}}
    lines = [head]
    for number, (call, took) in enumerate(events):
        args = {"call": call, "number": number, "where": "a.py:1"}
        lines.append({"name": call.split("(")[0], "ph": "X", "ts": 1000.0 * number, "dur": took, "args": args})
    folder.mkdir(exist_ok=True)
    text = ",\n".join(json.dumps(each | {"pid": 0, "tid": 0}) for each in lines)
    (folder / f"rank-{rank}.json").write_text(f"[\n{text},\n")


def test_events_are_matched_by_order_within_a_run(tmp_path, part):
    names = [each.name for each in measured(part.schedule, _empty(tmp_path))]
    assert len(names) == len(part.collectives()) == 3 and names[0].startswith("sort")
    for rank, factor in ((0, 1), (1, 3)):
        other = ("all_reduce.plan.run(grid_axes=[0]) 'of another program' on float64 (2,)", 900.0)
        run = [(f"run_plan '{name}', of float64", 10.0 * (i + 1) * factor) for i, name in enumerate(names[1:])]
        cut_short = run[:1]
        written(tmp_path / "traces", rank, [other, *run, *cut_short, *run, other, *[(c, 2 * t) for c, t in run]])
    nothing, *found = measured(part.schedule, tmp_path / "traces")
    assert nothing.seconds == () and [each.numbers for each in found] == [(2,), (3,)]
    assert found[0].seconds == pytest.approx([30e-6, 30e-6, 30e-6, 60e-6])  # the slower process, run by run
    assert found[1].seconds == pytest.approx([60e-6, 60e-6, 120e-6])
    lines = part.explain(trace=tmp_path / "traces").splitlines()
    assert lines[-5] == "seconds of the slowest process, median of 4 traced runs:"
    assert "not found" in lines[-3] and [line.split()[3] for line in lines[-2:]] == ["30.0", "60.0"]
    assert part.explain("x", trace=tmp_path / "traces").endswith(lines[-1])


def test_the_wait_for_what_was_started_counts(tmp_path, part):
    name = measured(part.schedule, _empty(tmp_path))[1].name
    call = f"all_gather.plan.start(grid_axes=[0]) '{name}'"
    for rank in range(2):
        written(tmp_path / "traces", rank, [(call, 5.0), (f"wait() for {call}", 7.0)] * 2)
    assert measured(part.schedule, tmp_path / "traces")[1].seconds == pytest.approx([12e-6, 12e-6])


def test_a_folder_without_traces_is_refused(tmp_path, part):
    with pytest.raises(sg.SpmdError):
        part.explain(trace=tmp_path / "nothing")


def _empty(tmp_path):
    for rank in range(2):
        written(tmp_path / "empty", rank, [])
    return tmp_path / "empty"
