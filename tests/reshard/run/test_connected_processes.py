"""A plan's run takes those processes that the plan connects: which these are, and that it waits for no others."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from support.jobs import check_fine

import spmd_grid as sg
from spmd_grid.reshard.geometry.components import connected_processes, connected_within_node

SHAPE = (12, 10)


def parts_by_hand(plan, n, nodes):
    """Parts of processes, joined for every pair between which a box moves, then on every node that several cross to."""
    part = list(range(n))

    def join(a, b):
        part[:] = [part[a] if each == part[b] else each for each in part]

    for move in plan.moves:
        for process in range(n):
            for other, _ in move.sends(move.source.grid.multi_index(process)):
                join(process, other)
    while True:
        before = list(part)
        wide = {each for each in part if len({nodes[p] for p in range(n) if part[p] == each}) > 1}
        for a in range(n):
            for b in range(a):
                if nodes[a] == nodes[b] and part[a] in wide and part[b] in wide:
                    join(a, b)
                    wide = {part[a] if each == part[b] else each for each in wide}
        if part == before:
            return [tuple(p for p in range(n) if part[p] == part[q]) for q in range(n)]


@pytest.mark.parametrize("nodes", [(0,) * 8, tuple(range(8)), (0, 0, 2, 2, 4, 4, 6, 6), (0, 0, 0, 0, 0, 5, 5, 5)])
def test_parts(nodes):
    rng, grid, seen, crossing = random.Random(sum(nodes)), sg.Grid((2, 2, 2)), set(), set()
    for _ in range(60):
        sides = []
        for _ in range(2):
            cuts = [[], []]
            for axis in rng.sample(range(3), rng.randrange(4)):
                rng.choice(cuts).append(axis)
            sides.append(sg.Sharding(grid, cuts))
        plan = sg.plan_reshard(*sides, SHAPE, "f8")
        expected = parts_by_hand(plan, 8, nodes)
        assert [connected_processes(plan.moves, process, range(8), nodes) for process in range(8)] == expected
        seen.add(len(set(expected)))
        for move in plan.moves:
            parts = parts_by_hand(SimpleNamespace(moves=[move]), 8, nodes)
            crosses = any(len({nodes[process] for process in part}) > 1 for part in parts)
            found = [connected_within_node(move, process, range(8), nodes) for process in range(8)]
            assert found == ([None] * 8 if crosses else parts)
            crossing.add(crosses)
    assert len(seen) > 2 and crossing == {False, max(nodes) > 0}


PROGRAM = """
import numpy as np
import pytest
import spmd_grid as sg

SHAPE = (12, 10)
grid = sg.init_grid((2, 2))

def run(plan, add):
    whole = np.arange(120).reshape(SHAPE) + add
    block = whole[plan.source.sharding.shard_slices(SHAPE, grid.coords)].copy()
    expected = whole[plan.target.sharding.shard_slices(SHAPE, grid.coords)]
    assert np.array_equal(plan.run(block, grid), expected)

rows = sg.plan_reshard(sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[0], []]), SHAPE, "i8")
across = sg.plan_reshard(sg.Sharding(grid, [[0, 1]]), sg.Sharding(grid, [[], [0, 1]]), SHAPE, "i8")
for turn in range(12):  # the first two processes more often than the others
    if grid.coords[0] == 0 or turn % 3 == 0:
        run(rows, turn)
    if turn % 4 == 0:
        run(across, turn)
for turn in range(2):  # an error of one process is told to those that are connected with it
    if grid.coords[0] == 1:
        with pytest.raises(sg.ShapeError, match="on rank 3 "):
            rows.run(np.zeros((6, 5 + (grid.rank == 3)), "i8"), grid)
    else:
        run(rows, turn)
assert sg.all_reduce(1, grid) == 4
print("fine")
"""


def test_a_run_waits_for_no_others(tmp_path):
    """Two nodes of two processes, on one machine whose arena is divided."""
    check_fine(tmp_path, 4, PROGRAM, SPMD_GRID_RANKS_PER_NODE="2")


def test_checking_mode_compares_all(spmd):
    """Two rows of processes in different plans, which connect nobody of the other row."""

    def body():
        grid = sg.init_grid((2, 2), check=True)
        rows = sg.Sharding(grid, [[0], []])
        plans = [sg.plan_reshard(source, rows, SHAPE, "i8") for source in (sg.Sharding(grid, [[0], [1]]), rows)]
        for plan in plans:
            shape = plan.source.sharding.shard_shape(SHAPE, grid.coords)
            plan.run(np.zeros(shape, "i8"), grid)
        plan = plans[grid.coords[0]]
        with pytest.raises(sg.MismatchError, match="different operations"):
            plan.run(np.zeros(plan.source.sharding.shard_shape(SHAPE, grid.coords), "i8"), grid)
        sg.init_grid((2, 2), check=False)  # for the tests after this one

    spmd(4, body)
