"""Whole programs with halo plans: they end quietly, or soon and with a report that names the rank."""

from itertools import product

import pytest
from support.jobs import run_job
from support.patience import in_time

OPEN = """
import gc, sys, time
import numpy as np
import spmd_grid as sg

ways, size = sys.argv[1].split(" and then "), int(sys.argv[2])
grid = sg.init_grid((-1,))
sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
shape = (2 * grid.size, size)

def make(path, way):
    halo = sg.HaloExchange(grid, sharding, shape, "f8", path=path)
    u = sg.full(shape, sharding, grid, fill_value=grid.rank)
    halo.update(u)
    halo.accumulate(u)
    if way == "started and dropped" and grid.rank == 0:
        time.sleep(0.1)  # so that it has not arrived anywhere when it is dropped
    if way in ("started", "started and dropped"):
        halo.start(u)
    if way == "started by some":
        halo.start(u)
        if grid.rank:
            halo.wait()
    if way == "refused":
        try:
            halo.update(u if grid.rank else None)
        except sg.OutputError:
            pass
    if way == "closed":
        halo.close()
    return halo, u

plans = [make(path, way) for way in ways for path in (None, "read", "staged", "packed", "straight")]
if "dropped" in ways[-1]:
    del plans
    gc.collect()
    if ways[-1] == "started and dropped":
        litter = [np.full(n, 1 << 40) for n in range(4, 60) for _ in range(20)]
        more = sg.HaloExchange(grid, sharding, shape, "f8")
        u = np.zeros(more.layout.local_shape(grid.coords))
        more.update(u)
        sg.all_reduce(1, grid, [0], "sum")
if grid.rank == 0:
    time.sleep(0.2)
"""


WAYS = ["open", "started", "started by some", "started and dropped", "dropped", "closed", "refused"]
ENDS = [
    ("simulated", "started and dropped", 3),
    ("mpiexec", "refused and then open and then started by some", 200_000),
    ("mpiexec", "started and dropped", 200_000),
]
MORE_ENDS = [(*where, size) for where in product(["simulated", "mpiexec"], WAYS) for size in (3, 200_000)]


def in_full(cases, more):
    """All cases, those of ``more`` that are not among them with --full."""
    return cases + [pytest.param(*case, marks=pytest.mark.full) for case in more if case not in cases]


@pytest.mark.parametrize(("transport", "way", "size"), in_full(ENDS, MORE_ENDS))
def test_an_ordinary_end_is_quiet(tmp_path, transport, way, size):
    program = tmp_path / "open.py"
    program.write_text(OPEN)
    job = run_job(transport, 3, program, way, str(size), python=["-W", "error"])
    assert (job.code, job.out, job.err) == (0, "", ""), job


DRILL = """
import sys, time
import numpy as np
import spmd_grid as sg

way, op, path, stamp = sys.argv[1:]
path = None if path == "None" else path
one_way, large = "one way" in op, "large" in op

def main():
    halo.update(u)
    halo.accumulate(u)
    if op.startswith("loop"):
        loop(halo, u, 2)
    if grid.rank != bad:
        for _ in range(5):
            if op == "wait":
                halo.start(u)
                halo.wait()
            elif op == "poke":
                halo.start(u)
                while not halo.poke():
                    time.sleep(0.01)
                halo.wait()
            elif op == "accumulate":
                halo.accumulate(u)
            elif op.startswith("loop"):
                loop(halo, u, 10)
            else:
                halo.update(u)
        return
    time.sleep(0.2)
    with open(stamp, "w") as file:
        file.write(str(time.time()))
    if way == "raises":
        raise ValueError("on purpose")
    if way == "exits":
        sys.exit(3)

grid = sg.init_grid((-1,))
bad = grid.size - 1
sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 0] if one_way else [1, 1])
shape = (2 * grid.size, 300_000 if large else 3)
halo = sg.HaloExchange(grid, sharding, shape, "f8", path=path)
u = np.zeros(halo.layout.local_shape(grid.coords))
if op.startswith("loop"):
    from support.compiled import updates_free, updates_holding

    loop = updates_free if "free" in op else updates_holding

main()
"""
DRILLS = [
    ("simulated", "returns", "loop holding", "staged"),
    ("mpiexec", "returns", "loop holding", "read"),
    ("mpiexec", "returns", "wait", "straight"),
    ("mpiexec", "returns", "accumulate", "staged"),
    ("mpiexec", "returns", "one way, large", "packed"),
    ("mpiexec", "raises", "poke", "packed"),
]
OPERATIONS = ["update", "wait", "poke", "accumulate", "loop holding", "loop free", "large", "one way, large"]
MORE_DRILLS = [
    (transport, way, op, path)
    for transport, paths in (("simulated", ["None"]), ("mpiexec", ["read", "staged", "packed", "straight"]))
    for way, op, path in product(["returns", "raises", "exits"], OPERATIONS, paths)
    # Simulated messages are buffered, and who does nothing but look waits for nobody.
    if not (transport == "simulated" and "large" in op) and (op != "poke" or way == "raises")
]


@pytest.mark.parametrize(("transport", "way", "op", "path"), in_full(DRILLS, MORE_DRILLS))
def test_one_rank_fails(tmp_path, transport, way, op, path):
    program, stamp = tmp_path / "drill.py", tmp_path / "stamp"
    program.write_text(DRILL)
    job = run_job(transport, 3, program, way, op, path, str(stamp))
    latency = job.ended - float(stamp.read_text())
    assert job.code != 0, job
    assert in_time(latency, 5), job
    assert "rank 2" in job.err, job
    if way == "raises":
        assert "ValueError: on purpose" in job.err and "in main" in job.err, job
    elif transport == "simulated" and way == "exits":
        assert job.code == 3 and "sys.exit(3)" in job.err, job
    else:
        assert "HaloExchange of [[0]] on 3" in job.err and "drill.py:" in job.err, job
        assert job.code < 128, job  # not a crash


SIGNAL = """
import signal, sys, time
import numpy as np
import spmd_grid as sg

op, path = sys.argv[1:]

def on_alarm(*_):
    raise KeyboardInterrupt("on purpose")

grid = sg.init_grid((-1,))
sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
halo = sg.HaloExchange(grid, sharding, (4,), "f8", path=path)
u = np.zeros(4)
if op == "loop":
    from support.compiled import updates_holding

    update = lambda u: updates_holding(halo, u, 3)
else:
    update = halo.update
update(u)
sg.all_reduce(1, grid, [0], "sum")
if grid.rank == 0:
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
else:
    time.sleep(4)
update(u)
"""


@pytest.mark.parametrize(
    ("op", "path"), [("update", "packed"), ("loop", "staged"), pytest.param("update", "staged", marks=pytest.mark.full)]
)
def test_a_signal_ends_a_wait(tmp_path, op, path):
    """An exception of a signal handler, as for Ctrl-C, ends the update that waits, and is told.

    It comes out of the update and is reported as an interrupt, unless it is raised in the moment in which Python enters
    the callback: then Python prints it, and the update fails in words of its own.
    """
    program = tmp_path / "alarm.py"
    program.write_text(SIGNAL)
    job = run_job("mpiexec", 2, program, op, path)
    assert job.code != 0, job
    interrupted = "interrupted (Ctrl-C) at alarm.py" in job.err and "on rank 0 (0,)" in job.err
    failed = "rank 0 (0,) of 2 failed" in job.err and "KeyboardInterrupt: on purpose" in job.err
    assert interrupted or failed, job


STRESS = """
# Random plans, updates and ends; each process draws alike and ends when its part is done.
import random, sys, time
import numpy as np
import spmd_grid as sg

seed = int(sys.argv[1])
grid = sg.init_grid((-1,))
common, own = random.Random(seed), random.Random(1000 * seed + grid.rank)
plans = []
for step in range(60):
    kind = common.randrange(6)
    if kind == 0 or not plans:
        width = common.choice([[1, 1], [1, 0], [0, 2]])
        path = common.choice([None, "read", "staged", "packed", "straight"])
        shape = (2 * grid.size, common.choice([3, 30_000]))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=width)
        plans.append((sg.HaloExchange(grid, sharding, shape, "f8", common.random() < 0.5, path=path), shape, sharding))
        continue
    at = common.randrange(len(plans))
    halo, shape, sharding = plans[at]
    u = sg.full(shape, sharding, grid, fill_value=grid.rank)
    if own.random() < 0.05:
        time.sleep(own.random() * 0.03)
    if kind == 1:
        halo.accumulate(u)
    elif kind == 2:
        halo.start(u)
        sg.all_reduce(1, grid, [0], "sum")
        halo.wait()
    elif kind == 3 and len(plans) > 3:
        plans.pop(at)[0].close()
        del halo
    elif kind == 4 and len(plans) > 3:
        del plans[at], halo
    else:
        for _ in range(common.randrange(5)):
            halo.update(u)
time.sleep(own.random() * 0.3)
"""


STRESSED = [("simulated", 5, 0), ("mpiexec", 5, 0)]
MORE_STRESSED = [(*where, seed) for where in (("simulated", 5), ("mpiexec", 2), ("mpiexec", 5)) for seed in range(15)]


@pytest.mark.parametrize(("transport", "n", "seed"), in_full(STRESSED, MORE_STRESSED))
def test_no_false_alarm(tmp_path, transport, n, seed):
    """Ranks that end at all sorts of moments, some long after others have sent to them for the last time."""
    program = tmp_path / "stress.py"
    program.write_text(STRESS)
    job = run_job(transport, n, program, str(seed))
    assert (job.code, job.out, job.err) == (0, "", ""), job


MANY_NODES = """
# Some neighbours meet in memory, others do not; every update, refusal and sum must be right.
import numpy as np
import spmd_grid as sg
from support.halo.accumulate_oracle import check_any as check_accumulate
from support.halo.any_plan import GRIDS, check_any

for grid_shape, split_axes in GRIDS:
    if np.prod(grid_shape) == 6:
        for path in None, "read", "straight":
            check_any(grid_shape, split_axes, 2, 31, path, True)
grid = sg.init_grid((6,))
sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
for path in None, "read", "straight":
    with sg.HaloExchange(grid, sharding, (12, 5000), "f8", True, path=path) as halo:
        for step in range(12):
            culprit = step % 6
            u = np.full((4, 5000), float(grid.rank + 10 * step))
            concerned = (grid.rank - culprit) % 6 in (0, 1, 5)
            try:
                halo.update(None if grid.rank == culprit else u)
                assert not concerned
            except sg.OutputError as error:
                assert concerned and f"rank {culprit} " in str(error)
                assert (u == grid.rank + 10 * step).all()
            halo.update(u)
            assert (u[0] == (grid.rank - 1) % 6 + 10 * step).all() and (u[-1] == (grid.rank + 1) % 6 + 10 * step).all()
            halo.start(u)
            halo.wait()
    check_accumulate((6,), [[0]], 2, 32, path, rules=["leave"])
"""


@pytest.mark.parametrize("arrangement", [{"SPMD_GRID_RANKS_PER_NODE": "2"}, {"SPMD_GRID_ARENA": "65536"}], ids=str)
def test_some_neighbours_do_not_meet_in_memory(tmp_path, arrangement):
    """Two ranks to a node; or an arena so small that plans and arrays find no room in it by and by."""
    program = tmp_path / "nodes.py"
    program.write_text(MANY_NODES)
    job = run_job("mpiexec", 6, program, environment=arrangement)
    assert (job.code, job.out, job.err) == (0, "", ""), job
