"""Plans as values: which way is chosen, and what a plan says of itself."""

import pickle
import random

import numpy as np
import pytest
from support.reshard.reshard_oracle import random_sharding
from support.reshard.reshard_run_oracle import check_case, given, random_case

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.executor import kept_plans
from spmd_grid.reshard.executor.exchanges.native_collectives import NativeExchange
from spmd_grid.reshard.planner.choose import choose
from spmd_grid.reshard.planner.cost import chain_cost

NODES = sg.LinkModel(node_size=4)
SLOW_AXIS = sg.LinkModel(axes={0: (1e-4, 1e8)})
SLOW_MESSAGES = sg.LinkModel(network_latency=1e-2)


def random_layouts(rng, **options):
    grid = sg.Grid(rng.choice([(4,), (2, 3), (4, 4), (2, 2, 2), (8, 2)]))
    shape = tuple(rng.choice([3, 16, 60, 700]) for _ in range(rng.choice([1, 2, 2, 3])))
    return [Layout(random_sharding(rng, grid, shape, **options), shape) for _ in range(2)]


# -- the choice --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [sg.LinkModel(), NODES, SLOW_AXIS, SLOW_MESSAGES], ids=lambda links: str(links)[:40])
def test_auto_is_never_slower_than_another_strategy_by_its_own_model(request, links):
    rng = random.Random(8)
    for n in range(1000 if request.config.getoption("full") else 50):
        source, target = random_layouts(rng, partial=n % 3 == 0)
        auto = choose(source, target, 8, "auto", links, None)
        seconds = chain_cost(auto.steps, 8, links).seconds
        for strategy in ("direct", "basis"):
            single = choose(source, target, 8, strategy, links, None)
            assert seconds <= chain_cost(single.steps, 8, links).seconds * (1 + 1e-9), (source, target, strategy)
        assert all(seconds <= lost.seconds * (1 + 1e-9) and lost.reason for lost in auto.lost)
        assert len({lost.steps for lost in auto.lost} | {auto.steps}) == len(auto.lost) + 1, "no way is rated twice"


def plan_of(split, to, shape=(512, 512), grid=(4, 4), **options):
    grid = sg.Grid(grid)
    links = options.pop("links", None)
    return sg.plan_reshard(sg.Sharding(grid, split, **options), sg.Sharding(grid, to), shape, "f8", links=links)


def test_patterns_that_are_collectives_become_them():
    assert plan_of([[0], [1]], [[0]]).chosen == "all_gather"
    assert plan_of([[0], [1]], [[0], []]).steps[0].kind == "all_gather"
    assert plan_of([[0]], [[], [0]]).steps[0].kind in ("all_to_all", "exchange")
    assert plan_of([], [[0]]).chosen == "all_slice"
    partial = plan_of([[0]], [[0]], partial_axes=[1])
    assert [part.kind for part in partial.run_steps] == ["reduce_scatter", "all_gather"]
    assert plan_of([[0]], [[0, 1]], partial_axes=[1]).chosen == "reduce_scatter"
    one = sg.Sharding(sg.Grid((1,)), [])
    everywhere = sg.Sharding(sg.Grid((64,)), [])
    assert sg.plan_reshard(one, everywhere, (1000, 1000), "f8").chosen == "broadcast"


def test_no_holder_serves_very_many():
    """One holder of a column, and 255 that want all of it: it goes in parts, which are then gathered."""
    plan = plan_of([[0]], [[1]], shape=(4096, 4096), grid=(16, 16))
    assert "gather" in plan.chosen and len(plan.steps) == 2
    direct = next(lost for lost in plan.alternatives if lost.name == "direct")
    assert plan.seconds < direct.seconds


def test_two_levels():
    """Replicated over nodes and within them: a cell comes to a node once, and is copied there through memory."""
    links = sg.LinkModel(node_size=16, cable_bandwidth=12.5e9)
    plan = plan_of([[0]], [[1]], shape=(4096, 4096), grid=(8, 2, 4, 4), links=links)
    _first, last = plan.steps
    assert last.kind == "all_gather" and set(last.grid_axes) == {2, 3}
    nodes = range(8 * 2 * 16 // 16)
    wanted = dict.fromkeys(nodes, 0)
    for device in range(8 * 2 * 16):
        coords = plan.target.grid.multi_index(device)
        for piece in plan.moves[0].receives(coords):
            if piece.process // 16 != device // 16:
                wanted[device // 16] += piece.box.size
    assert max(wanted.values()) <= 4096 * 4096, "no cell comes to a node twice"


def test_a_slow_axis_is_crossed_as_little_as_can_be():
    fast = plan_of([[0, 1]], [[1]], shape=(4096, 4096))
    slow = plan_of([[0, 1]], [[1]], shape=(4096, 4096), links=SLOW_AXIS)
    assert fast.seconds < slow.seconds


def test_strategies_and_their_steps():
    grid = sg.Grid((2, 3))
    source, target = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1], [0]])
    direct = sg.plan_reshard(source, target, (6, 6), "f8", "direct")
    assert [step.kind for step in direct.steps] == ["exchange"] and not direct.alternatives
    basis = sg.plan_reshard(source, target, (6, 6), "f8", "basis")
    assert [step.kind for step in basis.steps] == ["all_gather", "all_to_all", "all_slice"]
    assert sg.plan_reshard(source, source, (6, 6), "f8").steps == ()


# -- what a plan says --------------------------------------------------------------------------------------------


def test_equal_arguments_give_the_same_plan():
    grid = sg.Grid((2, 3))
    arguments = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1]]), (6, 7), "float64"
    plan = sg.plan_reshard(*arguments)
    assert sg.plan_reshard(*arguments) is plan and sg.plan_reshard(*arguments[:2], [6, 7], np.float64) is plan
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and hash(again) == hash(plan) and again.signature == plan.signature and str(again) == str(plan)


def test_the_text_tells_steps_bytes_seconds_and_what_lost():
    plan = plan_of([[0], [1]], [[1], [0]], shape=(4096, 4096))
    text = str(plan)
    for words in ("[[0],[1]]", "[[1],[0]]", "direct", "basis", "message", "MiB", "ms", "peak", "times as long"):
        assert words in text, words
    assert "nothing to do" in str(plan_of([[0]], [[0]]))


@pytest.mark.parametrize("strategy", ["direct", "basis", "auto"])
def test_bytes_per_device_add_up_to_the_totals(strategy):
    rng = random.Random(3)
    for n in range(60):
        source, target = random_layouts(rng, partial=n % 2 == 0)
        plan = sg.plan_reshard(source.sharding, target.sharding, source.global_shape, "f4", strategy)
        coords = [target.grid.multi_index(device) for device in range(target.grid.size)]
        received = [plan.bytes_received(at) for at in coords]
        sent = [plan.bytes_sent(at) for at in coords]
        totals = plan.totals()
        assert sum(received) == sum(sent) == totals.received
        assert max(received) <= totals.most_received and max(sent) <= totals.most_sent
        if totals.exact:
            assert (max(received), max(sent)) == totals[1:3]
        assert max(plan.peak_bytes(at) for at in coords) <= totals.peak


def bound_plans(grid, processes) -> list:
    """The plans that are kept ready on these processes."""
    return list(grid.kept["bound plans", tuple(processes)].values())


def moved_by(exchange) -> tuple[int, int]:
    """The bytes that an exchange sends to other processes, and those that it receives."""
    if isinstance(exchange, NativeExchange):  # between nodes
        transfer, itemsize = exchange._transfer, sum(empty.itemsize for empty in exchange._empty)
        if transfer is None:
            return 0, 0
        sizes = [
            sum(part.box.size for part in parts if part.peer != transfer.rank)
            for parts in (transfer.sends, transfer.receives)
        ]
        return sizes[0] * itemsize, sizes[1] * itemsize
    channel = exchange._channel
    takes = [take.target for group in channel.takes.values() for take in group]
    gives = [cells for group in channel.gives.values() for cells in group]
    return channel._bytes_of(gives), channel._bytes_of(takes)


@pytest.mark.parametrize("strategy", ["direct", "basis", "auto"])
def test_what_moves_is_what_it_says(spmd, strategy):
    def body(cases, seed):
        grid = sg.init_grid((2, 2))
        for case in cases:
            source, target = case.shardings(grid)
            plan = sg.plan_reshard(source, target, case.shape, case.dtype, strategy)
            sg.run_plan(plan, given(case, source, grid.coords), grid)
            bound = next(each for each in bound_plans(grid, range(4)) if each.plan.signature == plan.signature)
            moved = [moved_by(exchange) for exchange in bound._exchanges]
            assert sum(sent for sent, _ in moved) == plan.bytes_sent(grid.coords), case
            assert sum(received for _, received in moved) == plan.bytes_received(grid.coords), case

    rng = random.Random(strategy)
    cases = [random_case(rng, (2, 2)) for _ in range(20)]
    with sg.forced_path("direct"):
        spmd(4, body, cases, 1)


def test_a_million_devices():
    grid = sg.Grid((1024, 1024))
    source, target = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1], [0]])
    plan = sg.plan_reshard(source, target, (65536, 65536), "f8", "direct")
    assert plan.bytes_received((3, 5)) == 64 * 64 * 8 and plan.bytes_received((5, 5)) == 0
    assert plan.totals().received == (1024 * 1024 - 1024) * 64 * 64 * 8
    assert plan.peak_bytes((3, 5)) == 5 * 64 * 64 * 8  # what is sent is staged for this run and for the next


# -- many plans --------------------------------------------------------------------------------------------------


def test_plans_come_and_go(spmd, monkeypatch):
    """More plans than are kept: those used last stay, the others are bound anew, and all are right."""
    monkeypatch.setattr(kept_plans, "_MOST_KEPT", 3)

    def body(cases):
        grid = sg.init_grid((3,))
        for _ in range(3):
            for case in cases:
                check_case(case, grid, "direct")
        assert len(bound_plans(grid, range(3))) == 3

    rng = random.Random(9)
    spmd(3, body, [random_case(rng, (3,)) for _ in range(7)])
