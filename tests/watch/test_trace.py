"""Traces of whole programs, on simulated ranks and on MPI's processes: the bytes are those of an oracle, events nest,
and waits are those of the ranks that came early.
"""

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from support.jobs import run_job
from support.patience import at_growing_scales

from spmd_grid.cli.main import main
from spmd_grid.errors import OutputError
from spmd_grid.viz.svg.communication import communication_svg
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.summary import trace_summary

TRANSPORTS = ["simulated", "mpiexec"]

# Every rank has a block of 4 x 6 doubles, 192 bytes.
PROGRAM = """
import os, time
import numpy as np
import spmd_grid as sg

late = float(os.environ.get("LATE", "0.05"))
grid = sg.init_grid((-1,))
n, me = grid.size, grid.rank
x = np.full((4, 6), me, float)
sg.all_gather(x, grid, [0], 0)
sg.all_to_all(x, grid, [0], 1, 0)
sg.shift(x, grid, [0], 0, 1)
sg.shift(x, grid, [0], 0, -1, rotate=True)
sg.broadcast(x, grid, [0], [0])
sg.all_gather.start(x[:2], grid, [0], 0).wait()
with sg.gather.plan(grid, x.shape, x.dtype, [0], 0, [1]) as plan:
    plan.run(x)
sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 2])
u = np.zeros((7, 6))
sg.update_halo(u, grid, [[0]], [1, 2])
halo = sg.HaloExchange(grid, sharding, (4 * n, 6), float, name="u")
halo.update(u)
halo.start(u)
halo.wait()
halo.accumulate(u)
send, recv = sg.send, sg.recv  # loaded before seconds count
if me == 1:
    time.sleep(late)
sg.all_reduce(x, grid, [0], "sum")
if me == 0:
    time.sleep(late)
    send(x, grid, [0], [1])
if me == 1:
    recv(grid, [0])
rows = sg.from_function(lambda i, j: i + j, (6, 6), sg.Sharding(grid, [[0]]), grid, dtype="i4")
rows.reshard(sg.Sharding(grid, [[], [0]]))
"""


def oracle(n):
    """By operation, the bytes of one call from rank to rank."""
    all_pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    columns = [len(range(6)[i * -(-6 // n) : (i + 1) * -(-6 // n)]) for i in range(n)]
    down = {(a, a + 1): 1 * 6 * 8 for a in range(n - 1)}  # low halos of one row
    up = {(a + 1, a): 2 * 6 * 8 for a in range(n - 1)}  # high halos of two
    halo = down | up
    return {
        "all_gather": dict.fromkeys(all_pairs, 192),
        "all_to_all": {(a, b): 4 * columns[b] * 8 for a, b in all_pairs},
        "shift": _added({(a, a + 1): 192 for a in range(n - 1)}, {(a, (a - 1) % n): 192 for a in range(n)}),
        "broadcast": {(0, b): 192 for b in range(1, n)},
        "all_gather.start": dict.fromkeys(all_pairs, 96),
        "gather.plan.run": {(a, 1): 192 for a in range(n) if a != 1},
        "update_halo": halo,
        "HaloExchange.update": halo,
        "HaloExchange.start": halo,
        "HaloExchange.accumulate": {(b, a): n_bytes for (a, b), n_bytes in halo.items()},
        "send": {(0, 1): 192},
        "reshard": {(a, b): columns[a] * columns[b] * 4 for a, b in all_pairs},
    }


def _added(one, other):
    return {pair: one.get(pair, 0) + other.get(pair, 0) for pair in {*one, *other}}


def trace_of(transport, n, tmp_path, text=PROGRAM, code=0, **environment):
    program, folder = tmp_path / "app.py", tmp_path / "trace"
    program.write_text(text)
    job = run_job(transport, n, program, environment={"SPMD_GRID_TRACE": str(folder), **environment})
    assert (job.code == 0) == (code == 0), job
    return read_trace(folder)


@pytest.mark.parametrize(
    ("transport", "n", "environment"),
    [
        ("simulated", 3, {}),
        ("simulated", 3, {"SPMD_GRID_PATH": "message"}),
        pytest.param("simulated", 3, {"SPMD_GRID_CHECK": "0"}, marks=pytest.mark.full),
        pytest.param("mpiexec", 2, {}, marks=pytest.mark.full),
        ("mpiexec", 3, {"SPMD_GRID_RANKS_PER_NODE": "2", "SPMD_GRID_CHECK": "1"}),
    ],
)
@at_growing_scales(1, 10, 50)
def test_bytes_waits_and_nesting(transport, n, environment, tmp_path, scale):
    trace = trace_of(transport, n, tmp_path, LATE=str(0.05 * scale), **environment)
    half = 25e3 * scale
    assert sorted(trace.operations) == list(range(n)) and not trace.missing
    assert trace.labels == {rank: f"rank {rank} ({rank},)" for rank in range(n)}
    moved = {}
    for step in trace.all_operations():
        for peer, n_bytes in step.sent.items():
            pair = moved.setdefault(step.name, {})
            pair[step.rank, peer] = pair.get((step.rank, peer), 0) + n_bytes
    expected = oracle(n)
    assert {name: sent for name, sent in moved.items() if name in expected} == expected
    total = {}
    for sent in moved.values():
        total = _added(total, sent)
    assert trace.matrix() == total

    # Those who came so long before rank 1 waited, rank 1 did not; and so with the receiver of a late sender.
    for rank, steps in trace.operations.items():
        (step,) = [step for step in steps if step.name == "all_reduce"]
        assert step.waited < half if rank == 1 else half < step.waited <= step.took, (rank, step)
        assert step.where.startswith("app.py:") and step.path
        (step,) = [step for step in steps if step.name == "update_halo"]
        is_direct = transport == "simulated" and "SPMD_GRID_PATH" not in environment
        assert step.path == ("direct" if is_direct else "message")
        (step,) = [step for step in steps if step.name == "all_gather.start"]
        several_nodes = "SPMD_GRID_RANKS_PER_NODE" in environment
        assert step.path == ("inline" if several_nodes else "direct" if transport == "mpiexec" else "message")
    (step,) = [step for step in trace.operations[1] if step.name == "recv"]
    assert half < step.waited <= step.took

    # The joined file: the operations of a rank follow one another.
    events = json.loads(trace.write_joined().read_text())
    assert {event["ph"] for event in events} == {"M", "X"} and {event["pid"] for event in events} == {0}
    for rank in range(n):
        own = [event for event in events if event["ph"] == "X" and event["tid"] == rank]
        assert len(own) == len(trace.operations[rank]) > 12
        for one, other in zip(own, own[1:]):
            assert one["ts"] + one["dur"] <= other["ts"] + 0.01
        assert min(event["ts"] for event in own) >= 0
        gather = next(event for event in own if event["name"] == "all_gather")
        assert gather["args"]["bytes"] == 192 * (n - 1) and gather["args"]["sent"] == {
            str(peer): 192 for peer in range(n) if peer != rank
        }
        assert gather["args"]["call"].startswith("all_gather(grid_axes=[0], gather_axis=0)")


def test_a_program_that_fails_leaves_a_trace(tmp_path):
    text = (
        "import numpy as np, spmd_grid as sg\ngrid = sg.init_grid((-1,))\n"
        "sg.all_gather(np.zeros(3), grid, [0], 0)\n"
        "if grid.rank == 1:\n    raise ValueError('no')\n"
        "sg.all_reduce(1, grid, [0], 'sum')\n"
    )
    for transport in TRANSPORTS:
        trace = trace_of(transport, 2, tmp_path / transport, text, code=1)
        for rank in range(2):
            names = [step.name for step in trace.operations[rank]]
            assert "all_gather" in names and names.count("all_reduce") <= 1
        json.loads(trace.write_joined().read_text())


@pytest.fixture(autouse=True)
def folders(tmp_path):
    for transport in TRANSPORTS:
        (tmp_path / transport).mkdir()


def test_torn_lines_missing_ranks_and_what_an_earlier_run_left(tmp_path):
    folder = tmp_path / "trace"
    trace_of("simulated", 3, tmp_path, "import spmd_grid as sg\nsg.init_grid((-1,))\n")
    assert (folder / "rank-2.json").exists() and (folder / "trace.json").exists()
    text = "import spmd_grid as sg\ngrid = sg.init_grid((-1,))\n" + "sg.all_reduce(1, grid, [0], 'sum')\n" * 3
    trace_of("simulated", 2, tmp_path, text)
    assert not (folder / "rank-2.json").exists()
    path = folder / "rank-1.json"
    path.write_text(path.read_text()[:-20])
    trace = read_trace(folder)
    assert [len(trace.operations[rank]) for rank in range(2)] == [3, 2]
    path.unlink()
    assert read_trace(folder).missing == [1] and read_trace(folder).labels_of_all[1] == "rank 1"
    said = trace_summary(read_trace(folder))
    assert "no trace of rank 1: " in said and "copy the files rank-*.json of all hosts into one folder" in said
    with pytest.raises(OutputError, match="holds no trace"):
        read_trace(tmp_path / "nowhere")


EVENT = '{"name": "send", "ph": "X", "ts": 1.0, "dur": 1.0, "args": %s}'
CRAFTED = {
    "no arguments": '{"name": "send", "ph": "X"}',
    "arguments of another kind": EVENT % '"x"',
    "no call": EVENT % '{"where": "a.py:1"}',
    "bytes that are no number": EVENT % '{"call": "send()", "where": "a.py:1", "sent": {"0": "x", "y": 1}}',
    "a name of a process that is none": '{"name": "thread_name", "ph": "M", "args": {"size": "x"}}',
    "times that are texts": '{"name": "send", "ph": "X", "ts": "1", "dur": [], "args": {"call": "", "where": ""}}',
    "a series of series": EVENT % '{"call": "", "where": "", "series": ["x"]}',
}


@pytest.mark.parametrize("name", CRAFTED)
def test_traces_of_somebody_else_are_refused(tmp_path, name):
    (tmp_path / "rank-0.json").write_text("[\n" + CRAFTED[name] + ",\n")
    with pytest.raises(OutputError, match="holds no trace"):
        read_trace(tmp_path)


def test_several_runs_of_one_process(tmp_path):
    text = (
        "import spmd_grid as sg\n"
        "def body():\n    grid = sg.init_grid((-1,))\n    sg.all_reduce(1, grid, [0], 'sum')\n"
        "sg.run_spmd(body, ranks=2)\nsg.run_spmd(body, ranks=3)\n"
    )
    assert trace_of("simulated", 1, tmp_path, text).size == 1
    assert [read_trace(tmp_path / "trace" / f"run-{n}").size for n in (2, 3)] == [2, 3]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    program = tmp_path / "app.py"
    program.write_text("import spmd_grid as sg\nsg.init_grid((-1,))\n")
    job = run_job("simulated", 2, program, environment={"SPMD_GRID_TRACE": str(tmp_path / "file")})
    assert job.code == 1 and "OutputError: the trace cannot be written to" in job.err


def test_the_example(tmp_path, capsys):
    example = Path(__file__).resolve().parents[2] / "mpirun_examples" / "debug" / "trace_late_rank.py"
    folder = tmp_path / "trace"
    job = run_job("mpiexec", 2, example, environment={"SPMD_GRID_TRACE": str(folder)})
    assert job.code == 0 and "columns here: 128" in job.out, job
    assert main(["trace", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "load: rank 1 (1,) is longest between operations" in said and "HaloExchange.update     80" in said


def test_the_command(tmp_path, capsys):
    trace_of("simulated", 3, tmp_path)
    folder = tmp_path / "trace"
    assert main(["trace", str(folder)]) == 0
    said = capsys.readouterr().out
    for words in (
        "operations of 3 ranks in ",
        "rank 1 (1,)",
        "load: ",
        "heaviest pairs",
        f"wrote {folder / 'trace.json'}",
    ):
        assert words in said
    took = Counter()
    for operation in read_trace(folder).all_operations():
        took[operation.name] += operation.took
    assert [name for name, _ in took.most_common(12) if f"\n{name} " not in said] == []  # the table has 12 rows
    picture = ElementTree.parse(folder / "matrix.svg").getroot()
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert len(texts) == len(read_trace(folder).matrix())
    assert main(["trace", str(tmp_path / "nowhere")]) == 2
    assert "holds no trace" in capsys.readouterr().err


@pytest.mark.parametrize("n", [1, 5, 200])
def test_the_picture_of_any_matrix(n):
    labels = {rank: f"rank {rank}" for rank in range(n)}
    for matrix in ({}, {(0, n - 1): 7}, {(i, j): 10 ** (i % 9) + j for i in range(n) for j in range(min(n, 4))}):
        root = ElementTree.fromstring(communication_svg(matrix, labels))
        titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
        assert len(titles) == len(matrix)
        if matrix:
            assert titles[0].startswith("rank 0 to rank ")
