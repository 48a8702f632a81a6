"""Arrays that nobody else can read, on one node: pieces go through little shared memory, and come out the same."""

import pytest
from support.jobs import check_fine

HEAD = """
import random, sys
import numpy as np
import spmd_grid as sg
from spmd_grid.reshard.executor import bound_plan as bound
from spmd_grid.reshard.executor.exchanges import box_exchange as boxes
from spmd_grid.grid.layout import Layout

def bound_plans(grid):
    return [each for kept in grid.kept.values() if hasattr(kept, "n_bytes") for each in kept.values()]
"""

# Every exchange, however small, in rounds of few cells: arrays in the arena and out of it, one or several, in place.
SMALL = (
    HEAD
    + """
from support.reshard.reshard_run_oracle import check_case, check_result, given, random_case

bound.MOST_STAGED_BYTES = 600
boxes.BoxExchange._relay_of = lambda self, parts: None  # most would be relayed
boxes._READ_BYTES = 64  # some are read where they lie, if they can be
in_rounds, at_once = [], []
run_in_rounds, can_be_read = boxes.BoxExchange._run_in_rounds, boxes.BoxExchange._all_can_be_read

def counted(self, *args):
    in_rounds.append(self._rounds.count)
    assert self.staging_bytes <= 600 + 4096, (self.staging_bytes, self._rounds.count)
    run_in_rounds(self, *args)

def asked(self, *args):
    at_once.append(can_be_read(self, *args))
    return at_once[-1]

boxes.BoxExchange._run_in_rounds, boxes.BoxExchange._all_can_be_read = counted, asked

def in_arena(grid, array):
    copy = grid.allocate(array.shape, array.dtype)
    copy[...] = array
    return copy

def check_lists(case, grid, strategy):
    source, target = case.shardings(grid)
    local = given(case, source, grid.coords)
    several = [local, local.astype("c16")] if not source.partial_axes + target.partial_axes else [local, local.copy()]
    for bring in (lambda x: x, lambda x: in_arena(grid, x), lambda x: x if grid.rank else in_arena(grid, x)):
        first, second = sg.reshard([bring(x) for x in several], source, target, grid, case.shape, strategy=strategy)
        assert np.array_equal(first.astype(second.dtype), second)
        check_result(case, source, target, grid.coords, first, grid)
        out = np.empty_like(first) if grid.rank % 2 else in_arena(grid, first)
        sg.reshard(bring(local), source, target, grid, case.shape, out=out, strategy=strategy)
        check_result(case, source, target, grid.coords, out, grid)
    if sg.all_reduce(np.array(out.shape == local.shape), grid, list(range(grid.ndim)), "min"):
        sg.reshard(local, source, target, grid, case.shape, out=local, strategy=strategy)
        check_result(case, source, target, grid.coords, local, grid)

for shape in {grids}:
    grid = sg.init_grid(shape, ranks=list(range(int(np.prod(shape)))))
    if grid.coords is None:
        continue
    rng = random.Random(repr(shape))
    for n in range(15):
        strategy = ("auto", "basis", "direct")[n % 3]
        check_case(random_case(rng, shape), grid, strategy)
        check_lists(random_case(rng, shape), grid, strategy)
assert sum(count > 1 for count in in_rounds) > 20 and any(at_once) and not all(at_once)
print("fine")
"""
)

LARGE = (
    HEAD
    + """
grid = sg.init_grid((int(sys.argv[1]),))
rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
whole, parts = sg.Sharding(grid, [[], []]), sg.Sharding(grid, [[], []], partial_axes=[0])

def shared():  # what this process has touched of the memory that it shares with others, in bytes
    with open("/proc/self/smaps") as lines:
        is_arena = False
        for line in lines:
            is_arena = "memfd:spmd_grid" in line or is_arena
            if is_arena and line.startswith("Rss:"):
                return int(line.split()[1]) << 10

shape = (1300, 900)
values = np.arange(np.prod(shape), dtype=float).reshape(shape)
for source, target in ((rows, columns), (columns, rows), (rows, whole), (parts, columns), (parts, whole)):
    box = source.shard_slices(shape, grid.coords)
    local = values * (grid.rank + 1) if source is parts else values[box].copy()
    expected = values * (grid.size * (grid.size + 1) // 2) if source is parts else values
    expected = expected[target.shard_slices(shape, grid.coords)]
    out, before = np.zeros_like(expected), shared()
    for _ in range(2):
        sg.reshard(local, source, target, grid, shape, out=out, strategy="direct")
        assert np.array_equal(out, expected)
    exact = np.random.default_rng(grid.rank).standard_normal(local.shape)
    plan = bound_plans(grid)[-1]
    assert 0 < plan.staging_bytes <= 2 << 20, plan.staging_bytes
    most = plan.staging_bytes * grid.size + sum(x.nbytes for stop in plan._between for x in stop) + (1 << 18)
    assert shared() - before <= most, (source, target, shared() - before, most)
    lent = grid.allocate(local.shape, local.dtype)
    lent[...] = exact
    with sg.forced_path("packed"):
        expected = sg.reshard(exact, source, target, grid, shape, strategy="direct")
    for given in (exact, lent, lent if grid.rank else exact):
        result = sg.reshard(given, source, target, grid, shape, strategy="direct")
        assert result.tobytes() == expected.tobytes()
    sg.all_reduce(np.zeros(()), grid, [0])
print("fine")
"""
)


@pytest.mark.parametrize(
    "grids",
    [[(2,), (3,)], *(pytest.param(grids, marks=pytest.mark.full) for grids in ([(4,), (2, 2)], [(6,), (2, 3)]))],
)
def test_rounds_of_a_few_cells(tmp_path, grids):
    n = {2: 3, 4: 4, 6: 6}[grids[0][0]]
    check_fine(tmp_path, n, SMALL.replace("{grids}", repr(grids)))


@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.full), 3])
def test_staging_is_bounded(tmp_path, n):
    """At most 2 MiB beside source and result, by the plan's own account and the system's; with the same bits."""
    check_fine(tmp_path, n, LARGE, str(n))
