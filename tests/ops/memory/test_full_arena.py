"""Operations, halos and reshardings where the memory that processes of a node share has no room left, on all or on one.

What has no room there goes in messages: slower, with the same results.
"""

import pytest
from support.jobs import check_fine

PROGRAM = """
import sys
import numpy as np
import spmd_grid as sg
from support.ops.arrays_anywhere import check_all

world = sg.init_grid((-1,))
n, me = world.grid.size, world.rank


def filled(leave):
    "Arrays that leave about so many bytes of this process's part."
    kept, size = [], 1 << 40
    arena = world.process.arena
    spared = arena.allocate(leave) if leave else None
    while size:
        block = arena.allocate(size)
        if block is None:
            size //= 2
        else:
            kept.append(block)
    assert arena.allocate(1) is None
    return kept


def check_operations(grid):
    rng = np.random.default_rng(7)
    for number, shape in enumerate([(3, 2), (150, 151), (301, 700)]):
        for i, kind in enumerate(["plain", "every other column", "mixed"]):
            out_kind = [None, "plain"][(number + i) % 2]
            check_all(grid, n, me, rng.standard_normal((n, *shape)), kind, out_kind)
        parts = rng.standard_normal((n, *shape))
        requests = [
            sg.all_reduce.start(parts[me], grid, [0]),
            sg.all_gather.start(parts[me], grid, [0], 0),
            sg.send.start(parts[me], grid, [0], [(me + 1) % n]),
            sg.recv.start(grid, [0], [(me - 1) % n]),
        ]
        total, whole, _, left = [request.wait() for request in requests]
        assert np.allclose(total, parts.sum(0)) and np.array_equal(whole, np.concatenate(parts))
        assert np.array_equal(left, parts[me - 1])


def check_halos(grid):
    shape = (40 * n, 300)
    values = np.random.default_rng(8).standard_normal(shape)
    layout = sg.Sharding(grid, [[0], []], halo_sizes=[2, 1])
    place = grid.coords[0]
    rows = np.arange(40 * place - 2, 40 * (place + 1) + 1) % shape[0]
    for each in ("update_halo", "exchange"):
        u = sg.ShardedArray.from_global(values, layout, grid)
        u.core[...] += 1
        if each == "update_halo":
            u.update_halo(periodic=True)
        else:
            with sg.HaloExchange(grid, layout, shape, "f8", True) as plan:
                for _ in range(3):
                    plan.update(u.local)
        assert np.array_equal(u.local, values[rows] + 1), each


def check_reshardings(grid):
    rows, columns, whole = ([[0], []], [[], [0]], [[], []])
    for shape in [(13, 17), (1200, 1100)]:
        values = np.random.default_rng(9).standard_normal(shape)
        for source, target in [(rows, columns), (columns, whole), (whole, rows)]:
            source, target = sg.Sharding(grid, source), sg.Sharding(grid, target)
            for strategy in ("direct", "basis", "auto"):
                u = sg.ShardedArray.from_global(values, source, grid)
                for _ in range(2):
                    v = u.reshard(target, strategy=strategy)
                    assert np.array_equal(v.core, sg.ShardedArray.from_global(values, target, grid).core)
        partial = sg.Sharding(grid, [[]], partial_axes=[0], partial_kind="sum")
        part = np.full(shape, grid.rank + 1.0)
        total = sg.reshard(part, partial, sg.Sharding(grid, columns), grid, shape)
        assert (total == n * (n + 1) / 2).all()


where, leave = sys.argv[1:]
if where == "later":  # there is room to meet, and then none for arrays
    sg.all_reduce(np.ones(1), world, [0])
kept = filled(int(leave)) if where in (str(me), "later") else []
check_operations(world)
check_halos(world)
check_reshardings(world)
print("fine")
"""


@pytest.mark.parametrize(
    ("n", "where", "leave", "environment"),
    [
        (2, "all alike", "0", {"SPMD_GRID_ARENA": "1000000"}),
        pytest.param(2, "0", "0", {}, marks=pytest.mark.full),
        pytest.param(2, "1", "200000", {}, marks=pytest.mark.full),
        (3, "later", "100000", {}),
        (4, "2", "0", {"SPMD_GRID_RANKS_PER_NODE": "2"}),
    ],
)
def test_results_are_the_same(tmp_path, n, where, leave, environment):
    """``where``: the rank on which only ``leave`` bytes have room."""
    check_fine(tmp_path, n, PROGRAM, where, leave, **{"SPMD_GRID_TIMEOUT": "90", **environment})
