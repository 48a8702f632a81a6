"""Whole jobs in which one rank fails or leaves early: they end non-zero, soon, and name the rank.

And whole jobs in which nothing is wrong: they end quietly, however unevenly.
"""

from itertools import product

import pytest
from support.jobs import run_job
from support.patience import in_time

DRILL = """
import sys, time
import numpy as np
import spmd_grid as sg

way, op, stamp = sys.argv[1:]
OPERATIONS = {
    "all_reduce": lambda: sg.all_reduce(np.ones(3), grid, [0], "sum"),
    "all_reduce of 1 MiB": lambda: sg.all_reduce(np.ones(1 << 17), grid, [0], "sum"),
    "broadcast": lambda: sg.broadcast(np.ones(3), grid, [0], [bad]),
    "update_halo": lambda: sg.update_halo(np.ones((4, 3)), grid, [[0]], [1, 1], periodic=True),
    "recv": lambda: sg.recv(grid, [0], [bad]),
    "recv.start": lambda: sg.recv.start(grid, [0], [bad]).wait(),
    "send": lambda: sg.send(np.ones(1 << 20), grid, [0], [bad]) or sg.recv(grid, [0], [bad]),
    "send.start": lambda: sg.send.start(np.ones(1 << 20), grid, [0], [bad]).wait() or sg.recv(grid, [0], [bad]),
    "first use of a group": lambda: sg.all_reduce(1, sg.init_grid(shape), [1], "sum"),
}

def main():
    OPERATIONS["all_reduce"]()
    if grid.rank != bad:
        return OPERATIONS[op]()
    time.sleep(0.2)
    with open(stamp, "w") as file:
        file.write(str(time.time()))
    if way == "raises":
        raise ValueError("on purpose")
    if way == "exits":
        sys.exit(3)
    return None

grid = sg.init_grid((-1,))
bad = grid.size - 1
shape = (1, grid.size) if grid.size < 4 else (2, grid.size // 2)
main()
"""

OPERATIONS = [
    "all_reduce",
    "all_reduce of 1 MiB",
    "broadcast",
    "update_halo",
    "recv",
    "recv.start",
    "send",
    "send.start",
    "first use of a group",
]
# What the report calls it: what the rank waits in.
SHOWN = {
    "all_reduce of 1 MiB": "all_reduce",
    "recv.start": "recv",
    "send": "",
    "send.start": "",
    "first use of a group": "",
}


# tests/drills drills more of them, in less time: many in one process, or in one job.
SAMPLE = [
    ("simulated", 4, "all_reduce", "raises"),
    ("simulated", 4, "send.start", "exits"),
    ("mpiexec", 4, "all_reduce of 1 MiB", "raises"),
    ("mpiexec", 2, "recv", "exits"),
    ("mpiexec", 2, "send", "returns"),
    ("mpiexec", 4, "first use of a group", "returns"),
]
WAYS = ["raises", "exits", "returns"]
ALL = [
    *product(["simulated"], [4], OPERATIONS, WAYS),
    *product(["mpiexec"], [2], ["all_reduce", "recv", "send"], WAYS),
    *product(["mpiexec"], [4], OPERATIONS, WAYS),
]
CASES = SAMPLE + [pytest.param(*case, marks=pytest.mark.full) for case in ALL if case not in SAMPLE]


@pytest.mark.parametrize(("transport", "n", "op", "way"), CASES)
def test_one_rank_fails(tmp_path, transport, n, op, way):
    program, stamp = tmp_path / "drill.py", tmp_path / "stamp"
    program.write_text(DRILL)
    job = run_job(transport, n, program, way, op, str(stamp))
    latency = job.ended - float(stamp.read_text())
    print(f"drill: {transport} {n} {way} {op}: {latency:.2f} s")
    assert job.code != 0, job
    assert in_time(latency, 5), job
    assert f"rank {n - 1}" in job.err, job
    if way == "raises":
        assert "ValueError: on purpose" in job.err and "in main" in job.err, job
    elif transport == "simulated" and way == "exits":
        assert job.code == 3 and "sys.exit(3)" in job.err, job
    else:
        assert SHOWN.get(op, op) in job.err and "drill.py:" in job.err, job
        assert job.code < 128, job  # not a crash


QUIET = """
import sys, time
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
sg.all_reduce(np.ones(3), grid, [0], "sum")
sg.update_halo(np.ones(4), grid, [[0]], [1, 1])
if grid.rank == 0:
    time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("transport", ["simulated", "mpiexec"])
def test_a_rank_that_ends_late_is_no_error(tmp_path, transport):
    program = tmp_path / "quiet.py"
    program.write_text(QUIET)
    job = run_job(transport, 3, program, "3", python=["-W", "error", "-X", "dev"])
    assert (job.code, job.out, job.err) == (0, "", ""), job


@pytest.mark.parametrize("n", [1, 2, pytest.param(6, marks=pytest.mark.full)])
def test_an_ordinary_end_is_quiet(tmp_path, n):
    program = tmp_path / "quiet.py"
    program.write_text(QUIET)
    job = run_job("mpiexec", n, program, "0")
    assert (job.code, job.out, job.err) == (0, "", ""), job


EXIT = """
import sys
import spmd_grid as sg
grid = sg.init_grid((-1,))
sg.all_reduce(1, grid, [0], "sum")
if grid.rank == 1 or sys.argv[1] == "all":
    sys.exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("transport", "who", "code"),
    [
        ("simulated", "one", 3),
        ("mpiexec", "all", 3),
        ("mpiexec", "one", 0),
        *[
            pytest.param(*case, marks=pytest.mark.full)
            for case in [("mpiexec", "one", 3), ("mpiexec", "all", 0), ("simulated", "all", 3)]
        ],
        *[pytest.param("simulated", who, 0, marks=pytest.mark.full) for who in ("one", "all")],
    ],
)
def test_exit_codes(tmp_path, transport, who, code):
    program = tmp_path / "exit.py"
    program.write_text(EXIT)
    job = run_job(transport, 3, program, who, str(code))
    if code:
        assert job.code == 3, job
    else:
        assert (job.code, job.err) == (0, ""), job


STRESS = """
# Random meetings and messages of random groups; each process draws alike and ends when its part is done.
import sys, time
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
size, me = grid.size, grid.rank
seed = int(sys.argv[1])
common = np.random.default_rng(seed)
own = np.random.default_rng([seed, me])
grids = [grid, sg.init_grid((size,), ranks=range(size)[::-1])]
pairs = {(0, 1), (size - 1, 0), (size // 2, size - 1)}
grids += [sg.init_grid((2,), ranks=pair) for pair in pairs if len({*pair}) == 2]
for step in range(100):
    g = grids[common.integers(len(grids))]
    kind, length = common.integers(4), int(common.choice([1, 100, 20_000]))
    a, b = common.permutation(g.size)[:2]
    if g.coords is None:
        continue
    here = g.coords[0]
    if own.random() < 0.02:
        time.sleep(own.random() * 0.05)
    if kind == 0:
        total = sg.all_reduce(np.full(length, here), g, [0], "sum")
        assert (total == g.size * (g.size - 1) // 2).all()
    elif kind == 1:
        assert sg.broadcast(np.full(length, here), g, [0], [a])[0] == a
    elif kind == 2 and here == a:
        sg.send(np.full(length, step), g, [0], [b])
    elif kind == 2 and here == b and g is grids[1]:  # here always from anybody, who may be ahead of others
        assert sg.recv(g, [0])[-1] < 100
    elif kind == 2 and here == b:
        assert sg.recv(g, [0], [a])[-1] == step
    elif kind == 3:
        request = sg.all_gather.start(np.full(length, here), g, [0], 0)
        assert len(request.wait()) == length * g.size
time.sleep(own.random() * 0.4)
"""


@pytest.mark.parametrize(
    ("n", "seed"),
    [(4, 0), *(pytest.param(n, i, marks=pytest.mark.full) for n in (2, 6) for i in range(20))],
)
def test_no_false_alarm(tmp_path, n, seed):
    """Ranks that end at all sorts of moments, some long after others have sent to them for the last time."""
    program = tmp_path / "stress.py"
    program.write_text(STRESS)
    job = run_job("mpiexec", n, program, str(seed))
    assert (job.code, job.out, job.err) == (0, "", ""), job
