"""Waits of operations, told from traces whose times are known."""

import json

import pytest

from spmd_grid.watch.trace.reading import read_trace


def operation(name, began, took, **args):
    return {"ph": "X", "name": name, "ts": began, "dur": took, "args": {"call": name, "where": "app.py:1", **args}}


def traced(folder, *ranks):
    for rank, events in enumerate(ranks):
        (folder / f"rank-{rank}.json").write_text("[\n" + "".join(json.dumps(event) + ",\n" for event in events))
    return read_trace(folder)


@pytest.mark.parametrize(
    ("first", "second", "waited"),
    [
        ((0, 80), (50, 10), (50, 0)),  # until the other came
        ((0, 10), (50, 10), (10, 0)),  # a root that had posted its array and was through before the other came
        ((50, 10), (0, 70), (0, 50)),
        ((0, 10), (0, 10), (0, 0)),
    ],
)
def test_an_operation_waits_for_the_last_to_come_and_no_longer_than_it_takes(tmp_path, first, second, waited):
    trace = traced(tmp_path, *([operation("broadcast", *times, series="all")] for times in (first, second)))
    assert tuple(trace.operations[rank][0].waited for rank in range(2)) == waited


def test_who_waits_for_whom(tmp_path):
    """Rank 0 awaits rank 1 alone; rank 2 is in the same series, and later.  The wait for a started one is all wait."""
    trace = traced(
        tmp_path,
        [operation("update", 0, 100, series="halo", awaits=[1]), operation("wait", 100, 7)],
        [operation("update", 20, 60, series="halo", awaits=[0, 2])],
        [operation("update", 90, 5, series="halo", awaits=[1])],
    )
    assert [[step.waited for step in trace.operations[rank]] for rank in range(3)] == [[20, 7], [60], [0]]
