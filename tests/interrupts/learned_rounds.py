"""Operations of processes that have become one compiled call, or are relayed, to be interrupted: as in `rounds`."""

from contextlib import contextmanager

import numpy as np
from rounds import come_late, halos
from support.interrupting import persist

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.halo.exchange import plan_of
from spmd_grid.kernels.protocol import slots as at


def learned_call(grid):
    """A call that is one compiled function, and goes on in Python while rank 0 is late."""
    _wait_in_python(meeting_of(grid.group((0,))).state)

    def run(k):
        come_late(grid, k)
        return persist(sg.all_reduce, np.full(30, k + grid.rank), grid, [0], "sum").tolist(), [3 * k + 3] * 30

    for _ in range(10):
        sg.all_reduce(np.full(30, 1), grid, [0], "sum")
    assert any(call.quick and call.quick._runs for call in grid.calls.values())
    return run


def learned_plan(grid):
    plan = sg.all_to_all.plan(grid, (6, 2), "f8", [0], 0, 1)
    x, out = np.empty((6, 2)), np.empty((2, 6))
    _wait_in_python(meeting_of(grid.group((0,))).state)

    def run(k):
        x[:], out[:] = 10.0 * k + grid.rank, -1
        come_late(grid, k)
        found = persist(plan.run, x, out)
        return found.tolist(), [[10 * k] * 2 + [10 * k + 1] * 2 + [10 * k + 2] * 2] * 2

    for _ in range(4):
        plan.run(x, out)
    assert plan._quick._runs
    return run


def learned_start(grid):
    plan = sg.all_gather.plan(grid, (2,), "i8", [0], 0)
    _wait_in_python(meeting_of(grid.group((0,))).state)

    def run(k):
        come_late(grid, k)
        persist(plan.start, np.full(2, k + grid.rank))
        return persist(plan.wait).tolist(), [k, k, k + 1, k + 1, k + 2, k + 2]

    for k in range(4):
        plan.start(np.full(2, k))
        plan.wait()
    assert plan._quick_start._runs
    return run


def learned_halo(grid):
    plan = sg.HaloExchange(grid, halos(grid), (12,), "f8", True)
    u = np.empty(6)
    _wait_in_python(plan_of(plan).channel._state.words)

    def run(k):
        u[:] = 10.0 * k + grid.rank
        come_late(grid, k)
        persist(plan.update, u)
        return u[[0, -1]].tolist(), [10 * k + (grid.rank - 1) % 3, 10 * k + (grid.rank + 1) % 3]

    for _ in range(4):
        plan.update(u)
    return run


def relayed_fold(grid):
    """Of four steps, in which the others wait for rank 0."""
    x = np.empty(100_000)
    _wait_in_python(meeting_of(grid.group((0,))).state)

    def run(k):
        x[:] = k + grid.rank
        with _late_relays(grid, k) as relays:
            found = np.unique(persist(sg.all_reduce, x, grid, [0], "sum")).tolist()
        assert relays, "the arrays were not relayed"
        return found, [3 * k + 3]

    return run


def relayed_boxes(grid):
    rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
    whole = np.add.outer(1000.0 * np.arange(300), np.arange(600))
    own, there = (layout.shard_slices((300, 600), grid.coords) for layout in (rows, columns))
    plan = sg.plan_reshard(rows, columns, (300, 600), "f8")
    _wait_in_python(meeting_of(grid.group((0,))).state)

    def run(k):
        with _late_relays(grid, k) as relays:
            found = persist(sg.run_plan, plan, whole[own] + k, grid)
        assert relays, "the arrays were not relayed"
        return np.array_equal(found, whole[there] + k), True

    return run


def relayed_partial_sums(grid):
    """Of more bytes than boxes that are only moved are relayed, in dozens of steps."""
    source, target = sg.Sharding(grid, [[]], partial_axes=[0]), sg.Sharding(grid, [[0]])
    x = np.empty(3 << 19 | 3)
    _wait_in_python(meeting_of(grid.group((0,))).state)

    def run(k):
        x[:] = k + grid.rank
        with _late_relays(grid, k) as relays:
            found = np.unique(persist(sg.reshard, x, source, target, grid, x.shape)).tolist()
        assert relays, "the arrays were not relayed"
        return found, [3 * k + 3]

    return run


def learned_resharding(grid):
    """Of one compiled call, in which the others wait for what rank 0 relays by Python."""
    rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
    whole = np.add.outer(100.0 * np.arange(30), np.arange(60))
    own, there = (layout.shard_slices((30, 60), grid.coords) for layout in (rows, columns))
    plan = sg.plan_reshard(rows, columns, (30, 60), "f8").bind(grid)
    by_python, out = plan.run, np.empty_like(whole[there])

    def run(k):
        with _late_relays(grid, k):
            found = persist(plan.run if grid.rank else by_python, whole[own] + k, out)
        return np.array_equal(found, whole[there] + k), True

    for _ in range(12):
        by_python(whole[own] + 0.0, out)
    assert plan._prepared.quick_for(plan.plan)._runs and plan.run != by_python
    _wait_in_python(meeting_of(grid.group((0,))).state)
    return run


def _wait_in_python(words):
    """Lets this process's waits, whose numbers of polls are among ``words``, look around in Python at once."""
    words[at.POLLS], words[at.YIELDS] = 1, 0


@contextmanager
def _late_relays(grid, k):
    """Within it rank 0 comes late to relays, after their meeting; gives a list of those that have begun."""
    relay, begun = MemoryMeeting.relay, []

    def relay_late(*args):
        begun.append(args)
        come_late(grid, k)
        return relay(*args)

    MemoryMeeting.relay = relay_late
    try:
        yield begun
    finally:
        MemoryMeeting.relay = relay
