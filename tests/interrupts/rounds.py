"""Operations to be interrupted: each makes ``run(k)``, round k on three ranks: what came of it, and what should."""

import time

import numpy as np
from support.compiled import updates_holding
from support.interrupting import persist

import spmd_grid as sg

INTERRUPTED = 2  # the round in which a rank is interrupted
LATE = 0.1  # seconds, so that the others wait in Python too, on a busy machine as well


def halos(grid):
    return sg.Sharding(grid, [[0]], halo_sizes=[1, 1])


def come_late(grid, k):
    if grid.rank == 0 and k == INTERRUPTED:
        time.sleep(LATE)


def small_all_reduce(grid):
    def run(k):
        return persist(sg.all_reduce, np.full(30, k + grid.rank), grid, [0], "sum").tolist(), [3 * k + 3] * 30

    return run


def large_all_reduce(grid):
    """Its array is lent, and written again as soon as the operation is over."""
    x = grid.allocate((30000,), "f8")

    def run(k):
        x[:] = k + grid.rank
        try:
            return np.unique(persist(sg.all_reduce, x, grid, [0], "sum")).tolist(), [3 * k + 3]
        finally:
            x[:] = -1000

    return run


def plain_all_to_all(grid):
    """From plain arrays, in a relay or in messages, that are written again as soon as the operation is over."""

    def run(k):
        x = np.full((3, 1 << 15), 10.0 * k + grid.rank)
        try:
            found = persist(sg.all_to_all, x, grid, [0], 0, 1)
            return found[0, :: 1 << 15].tolist(), [10 * k, 10 * k + 1, 10 * k + 2]
        finally:
            x[:] = -1000

    return run


def reduce_at_root(grid):
    out = grid.allocate((30000,), "f8")

    def run(k):
        result = persist(sg.reduce, np.full(30000, k + grid.rank, "f8"), grid, [0], "sum", [2], out=out)
        found = None if result is None else np.unique(result).tolist()
        out[:] = -1000
        return found, [3 * k + 3] if grid.rank == 2 else None

    return run


def started(grid):
    def run(k):
        gather = persist(sg.all_gather.start, np.full(3000, k + grid.rank), grid, [0], 0)
        reduce = persist(sg.all_reduce.start, np.full(3, k + grid.rank), grid, [0], lambda a, b: a + b)
        return (
            (persist(gather.wait)[::3000].tolist(), persist(reduce.wait).tolist()),
            ([k, k + 1, k + 2], [3 * k + 3] * 3),
        )

    return run


def planned(grid):
    """Of strided arrays, which no compiled call takes: it would have no bytecodes."""
    plan = persist(sg.all_to_all.plan, grid, (6, 2), "f8", [0], 0, 1)

    def run(k):
        found = persist(plan.run, np.full((6, 4), 10.0 * k + grid.rank)[:, ::2])
        return found.tolist(), [[10 * k] * 2 + [10 * k + 1] * 2 + [10 * k + 2] * 2] * 2

    return run


def send_and_receive(grid):
    after, before = (grid.rank + 1) % 3, (grid.rank - 1) % 3

    def run(k):
        sent = persist(sg.send.start, np.full(1000, 10 * k + grid.rank), grid, [0], [after])
        found = persist(sg.recv, grid, [0], [before])
        persist(sent.wait)
        return np.unique(found).tolist(), [10 * k + before]

    return run


def halo_update(grid):
    plan = persist(sg.HaloExchange, grid, halos(grid), (12,), "f8", True)

    def run(k):
        u = np.full(6, 10.0 * k + grid.rank)
        persist(plan.update, u)
        return u[[0, -1]].tolist(), [10 * k + (grid.rank - 1) % 3, 10 * k + (grid.rank + 1) % 3]

    return run


def compiled_loop(grid):
    """Between its updates there are no bytecodes but those of waits."""
    plan = persist(sg.HaloExchange, grid, halos(grid), (12,), "f8", True)
    is_simulated = grid.group((0,)).shares_objects

    def run(k):
        u = np.full(6, 10.0 * k + grid.rank)
        if not is_simulated:
            come_late(grid, k)
        persist(updates_holding, plan, u, 6)
        return u[[0, -1]].tolist(), [10 * k + (grid.rank - 1) % 3, 10 * k + (grid.rank + 1) % 3]

    return run


def halo_in_parts(grid):
    plan = persist(sg.HaloExchange, grid, halos(grid), (12,), "f8", True)

    def run(k):
        u, ones = np.full(6, 10.0 * k + grid.rank), np.ones(6)
        persist(plan.start, u)
        persist(plan.poke)
        persist(plan.wait)
        persist(plan.accumulate, ones)
        found = [*u[[0, -1]], *ones]
        return found, [10 * k + (grid.rank - 1) % 3, 10 * k + (grid.rank + 1) % 3, 0, 2, 1, 1, 2, 0]

    return run


def update_halo(grid):
    def run(k):
        u = np.full(6, 10 * k + grid.rank)
        persist(sg.update_halo, u, grid, [[0]], [1, 1], True)
        return u[[0, -1]].tolist(), [10 * k + (grid.rank - 1) % 3, 10 * k + (grid.rank + 1) % 3]

    return run


def overlap(grid):
    u = sg.zeros((12,), halos(grid), grid)
    core = u.core

    def average(u, out, starts, stops):
        for i in range(starts[0], stops[0]):
            out[i] = u[i - 1] + u[i + 1]

    def run(k):
        core[:] = k
        return persist(sg.map_overlap, average, u, 1, periodic=True).local[1:-1].tolist(), [2 * k] * 4

    return run


def first_resharding(grid):
    """To other blocks in every round, which binds no plan."""
    rows = sg.Sharding(grid, [[0]])
    requests = []
    for n in range(30, 40):
        there = sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 3, 17, n]])
        cells = [np.arange(n, dtype="f8")[each.shard_slices((n,), grid.coords)] for each in (rows, there)]
        requests.append((n, there, *cells))

    def run(k):
        n, there, own, wanted = requests[k]
        found = persist(sg.reshard, k + own, rows, there, grid, (n,))
        return found.tolist(), (k + wanted).tolist()

    return run


def resharding(grid):
    rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])

    def run(k):
        u = persist(sg.from_function, lambda i, j: 100 * i + j + k, (7, 5), rows, grid)
        found = persist(persist(u.reshard, columns).to_global)
        return found.tolist(), (np.add.outer(100 * np.arange(7), np.arange(5)) + k).tolist()

    return run


def partitioned_program(grid):
    rows = sg.Sharding(grid, [[0]])
    program = sg.trace(lambda a: (a - np.max(a)) @ a.T, sg.ArraySpec((7, 5)))
    part = sg.partition(program, grid, rows, rows)
    own, of_result = (rows.shard_slices((7, n), grid.coords) for n in (5, 7))

    def run(k):
        whole = np.add.outer(100.0 * np.arange(7), np.arange(5)) + k
        found = persist(part.run, grid, whole[own])
        return found.tolist(), ((whole - whole.max()) @ whole.T)[of_result].tolist()

    return run


def cell_sums(grid):
    u = sg.zeros((7, 5), sg.Sharding(grid, [[0]]), grid)
    core = u.core

    def run(k):
        core[:] = k
        found = float(persist(sg.sum, u)), float(persist(sg.max, u)), float(persist(sg.dot, u, u, reproducible=True))
        return found, (35 * k, k, 35 * k * k)

    return run


def new_groups_and_plans(grid):
    """A group that first meets, and a plan that is made, in every round."""
    orders = (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)
    grids = [grid.like(sg.Grid((3,), ranks=ranks), "the test") for ranks in orders]
    layout = halos(grid)

    def run(k):
        with persist(sg.HaloExchange, grid, layout, (12,), "f8", True):
            return persist(sg.all_reduce, k, grids[k], [0], "sum").item(), 3 * k

    return run
