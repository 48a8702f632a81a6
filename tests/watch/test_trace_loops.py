"""Traces of updates that compiled loops make: none is missing, or it is told; bytes, times and waits are right."""

import json
import re

import numpy as np
import pytest
from support.jobs import run_job
from support.patience import at_growing_scales

import spmd_grid as sg
from spmd_grid.cli.main import main
from spmd_grid.halo.exchange import plan_of
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.watch.trace.reading import read_trace

HEAD = """
import os, resource, signal, time
import numpy as np
import spmd_grid as sg
from support.compiled import late_updates_holding as late_loop, updates_free as loop

grid = sg.init_grid((-1,))
n, me = grid.size, grid.rank
sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 2])
u = sg.zeros((4 * n, 6), sharding, grid).local
halo = sg.HaloExchange(grid, sharding, (4 * n, 6), float, name="u")
"""
MADE_AT = f"made at app.py:{HEAD.count(chr(10))}, in a compiled loop"

UPDATES = 500
MIXED = f"""
ring = sg.HaloExchange(grid, sharding, (4 * n, 6), float, periodic=True)
halo.update(u)
loop(halo, u, {UPDATES})
halo.start(u)
loop(ring, u, 50)
halo.wait()
halo.accumulate(u)
late_loop(halo, u, 100, float(os.environ["LATE"]) * (me == 1))
halo.update(u)
sg.all_reduce(1, grid, [0], "sum")
loop(halo, u, 10)
"""


def trace_of(transport, n, tmp_path, text, code=0, **environment):
    program, folder = tmp_path / "app.py", tmp_path / "trace"
    program.write_text(HEAD + text)
    job = run_job(transport, n, program, environment={"SPMD_GRID_TRACE": str(folder), **environment})
    assert (job.code == 0) == (code == 0), job
    return read_trace(folder)


def of_loops(steps):
    return [step for step in steps if step.where.endswith("in a compiled loop")]


@pytest.mark.parametrize(
    ("transport", "n", "environment"),
    [
        ("simulated", 3, {}),
        pytest.param("simulated", 2, {"SPMD_GRID_PATH": "message", "SPMD_GRID_CHECK": "0"}, marks=pytest.mark.full),
        pytest.param("mpiexec", 2, {}, marks=pytest.mark.full),
        pytest.param("mpiexec", 3, {"SPMD_GRID_PATH": "message", "SPMD_GRID_CHECK": "1"}, marks=pytest.mark.full),
        ("mpiexec", 3, {"SPMD_GRID_RANKS_PER_NODE": "2", "SPMD_GRID_CHECK": "1"}),  # by memory and by messages
    ],
)
@at_growing_scales(1, 5, 25)
def test_all_updates_with_their_bytes_times_and_waits(transport, n, environment, tmp_path, capsys, scale):
    trace = trace_of(transport, n, tmp_path, MIXED, LATE=str(0.1 * scale), **environment)
    assert not trace.lost and sorted(trace.operations) == list(range(n))
    for rank, steps in trace.operations.items():
        near = [(rank - 1, 2 * 48), (rank + 1, 48)]  # high halos of two rows, low ones of one
        sent = {peer: n_bytes for peer, n_bytes in near if 0 <= peer < n}
        around = {}
        for peer, n_bytes in near:
            around[peer % n] = around.get(peer % n, 0) + n_bytes
        loops = of_loops(steps)
        assert len(loops) == UPDATES + 50 + 100 + 10
        assert [step.sent for step in loops] == [sent] * UPDATES + [around] * 50 + [sent] * 110
        assert {step.call for step in loops[:UPDATES]} == {"HaloExchange.update of u"}
        assert {step.where for step in loops[:UPDATES]} == {MADE_AT}
        assert {step.name for step in loops} == {"HaloExchange.update"} and all(step.path for step in loops)
        # The operations of a rank follow one another, and are in the order in which the program makes them.
        for one, other in zip(steps, steps[1:]):
            assert one.began <= one.ended <= other.began + 0.01, (one, other)
        names = [step.name.removeprefix("HaloExchange.") for step in steps[-115:]]
        expected = ["wait", "accumulate", *["update"] * 101, "all_reduce", *["update"] * 10]
        assert names[-len(expected) :] == expected
        # One rank is late, once; those who need it wait, and all updates before and after are not shifted.
        late = loops[UPDATES + 50 + 50]
        assert late.waited <= late.took
        if rank == 1:
            assert late.waited < 50e3 * scale
        elif abs(rank - 1) == 1:
            assert 50e3 * scale < late.waited
        assert 0 <= sum(step.waited for step in steps) <= sum(step.took for step in steps)

    # Neighbours are never two updates apart: of the n-th ones no end lies before the other's beginning.
    for rank in range(n - 1):
        for one, other in zip(
            of_loops(trace.operations[rank])[:UPDATES], of_loops(trace.operations[rank + 1])[:UPDATES]
        ):
            assert one.ended >= other.began and other.ended >= one.began

    matrix = {}
    for step in trace.all_operations():
        for peer, n_bytes in step.sent.items():
            matrix[step.rank, peer] = matrix.get((step.rank, peer), 0) + n_bytes
    assert trace.matrix() == matrix and matrix[0, 1] >= (UPDATES + 110) * 48
    events = json.loads(trace.write_joined().read_text())
    joined = [event for event in events if event["ph"] == "X" and event["args"]["where"] == MADE_AT]
    assert len(joined) == n * (UPDATES + 110)
    for event in joined:
        assert event["args"]["bytes"] == sum(event["args"]["sent"].values())
        assert 0 <= event["args"]["waited_us"] <= event["dur"] and event["ts"] >= 0
    assert main(["trace", str(tmp_path / "trace")]) == 0
    said = capsys.readouterr().out
    assert re.search(rf"HaloExchange\.update +{n * (UPDATES + 162)} ", said) and "missing" not in said, said
    for rank in range(n):  # each file by itself is one that viewers read
        json.loads((tmp_path / "trace" / f"rank-{rank}.json").read_text().rstrip(",\n") + "]")


@pytest.mark.parametrize(
    ("transport", "last"),
    [
        ("simulated", "pass"),
        ("mpiexec", "sg.all_reduce(1, grid, [0], 'sum')"),
        pytest.param("mpiexec", "pass", marks=pytest.mark.full),
    ],
)
def test_what_could_not_be_written_is_told(transport, last, tmp_path, capsys):
    """The file must not grow beyond a limit; the line that comes to it is torn, and the next operation is told."""
    text = f"""
loop(halo, u, 1)
usual = resource.getrlimit(resource.RLIMIT_FSIZE)
sg.all_reduce(1, grid, [0], "sum")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, usual[1]))
loop(halo, u, 500)
resource.setrlimit(resource.RLIMIT_FSIZE, usual)
{last}
"""
    trace = trace_of(transport, 2, tmp_path, text)
    assert sorted(trace.lost) == [0, 1]
    for rank, steps in trace.operations.items():
        assert trace.lost[rank] > 200 and len(of_loops(steps)) + trace.lost[rank] == 501
        assert [step.name for step in steps].count("all_reduce") == (2 if "all_reduce" in last else 1)
    assert main(["trace", str(tmp_path / "trace")]) == 0
    lost = sum(trace.lost.values())
    assert f"missing: {lost} updates in compiled loops that could not be written (rank 0: " in capsys.readouterr().out


@pytest.mark.parametrize("transport", ["simulated", "mpiexec"])
def test_an_update_that_is_refused_has_failed_and_moved_nothing(transport, tmp_path):
    text = """
loop(halo, u, 5)
try:
    loop(halo, u[:3] if me == 1 else u, 1)
except sg.ShapeError:
    loop(halo, u, 5)
halo.update(u)
"""
    trace = trace_of(transport, 2, tmp_path, text)
    for _rank, steps in trace.operations.items():
        updates = [step for step in steps if step.name == "HaloExchange.update"]
        assert [bool(step.sent) for step in updates] == [True] * 5 + [False] + [True] * 6
        assert [bool(step.path) for step in updates] == [bool(step.sent) for step in updates]
    events = json.loads(trace.write_joined().read_text())
    assert [event["args"].get("failed") for event in events if event["name"] == "HaloExchange.update"].count(True) == 2


def test_a_rank_that_is_killed_leaves_all_its_updates(tmp_path):
    text = f"""
loop(halo, u, {UPDATES})
sg.all_reduce(1, grid, [0], "sum")
if me == 1:
    os.kill(os.getpid(), signal.SIGKILL)
loop(halo, u, 1)
"""
    trace = trace_of("mpiexec", 2, tmp_path, text, code=1)
    assert len(of_loops(trace.operations[1])) == UPDATES
    assert len(of_loops(trace.operations[0])) in (UPDATES, UPDATES + 1)


def test_where_nothing_is_traced_loops_run_the_bare_course(monkeypatch):
    monkeypatch.delenv("SPMD_GRID_TRACE", raising=False)

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (4,), np.float64) as halo:
            state = plan_of(halo).channel._state.words
            return state[at.LOOP_COURSE] == state[at.COURSE] and state[at.FORM] == 0

    assert sg.run_spmd(body, ranks=2) == [True, True]
