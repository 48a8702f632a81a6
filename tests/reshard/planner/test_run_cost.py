"""Prices of runs of plans beyond those of their steps: meetings that carry small arrays, and several steps."""

from dataclasses import replace

import pytest
from support.links import free_links

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.links.costs import COMPILED
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.planner.choose import choose
from spmd_grid.reshard.planner.cost import chain_cost, step_cost
from spmd_grid.reshard.planner.direct import run_steps_of
from spmd_grid.reshard.planner.steps import ALL_REDUCE, ALL_TO_ALL, EXCHANGE, Step

GRID = sg.Grid((2, 2))
# Two nodes of two: a second from node to node, one for Python, a quarter for a wait in memory; bytes cost nothing.
LINKS = free_links(node_latency=0.25, network_latency=1, call_seconds=1)


def layout(split, side, grid=GRID, **options):
    return Layout(sg.Sharding(grid, split, **options), (side, side))


@pytest.mark.parametrize(
    "source, target, side, seconds",
    [
        # Processes 1 and 2 meet, one on each node: a compiled call, and the crossing.  The others copy.
        ([[1], [0]], [[0], [1]], 22, 1 + COMPILED),
        ([[], [0]], [[], [1, 0]], 22, 1 + COMPILED),
        # Of all four, the members of a node wait for one another before and after.
        ([[0, 1], []], [[], [0, 1]], 32, 1 + 2 * 0.25 + COMPILED),
        # Arrays of more than 4 KiB cross after the meeting of the two.
        ([[1], [0]], [[0], [1]], 46, 1 + COMPILED + 1),
    ],
    ids=str,
)
def test_runs_that_few_processes_meet_for(source, target, side, seconds):
    before, after = layout(source, side), layout(target, side)
    plan = sg.plan_reshard(before.sharding, after.sharding, (side, side), "f8", "direct", links=LINKS)
    assert plan.run_seconds == pytest.approx(seconds)


def test_the_way_that_fewer_meet_for_is_chosen_for_few_bytes():
    """The headers of two processes, or of four, carry the arrays of either way; with many bytes, the steps decide."""
    links = LinkModel(node_size=2, node_latency=100, network_latency=1, cable_bandwidth=1e9, message_seconds=1e-9)
    small = choose(layout([[1], [0]], 24), layout([[0], [1]], 24), 8, "auto", links, None)
    assert small.name == "direct" and all(lost.seconds > 200 for lost in small.lost)
    assert small == choose(layout([[1], [0]], 24), layout([[0], [1]], 24), 8, "auto", links, None)


def test_steps_of_several_are_moved_by_python():
    """One alone is compiled, unless it combines what comes from another node; an all_reduce is two."""
    first = Step(ALL_TO_ALL, layout([[], [0, 1]], 512), layout([[1], [0]], 512), (1,), (0, 1))
    second = Step(ALL_TO_ALL, layout([[1], [0]], 512), layout([[1, 0]], 512), (0,), (0, 1))
    each = [step_cost(step, 8, LINKS) for step in (first, second)]
    assert chain_cost([first], 8, LINKS) == each[0]
    assert chain_cost([first, second], 8, LINKS).seconds == pytest.approx(each[0].seconds + each[1].seconds + 2)
    summed = Step(ALL_REDUCE, layout([], 512, partial_axes=[0, 1]), layout([], 512), (0, 1))
    parts = sum(step_cost(part, 8, LINKS).seconds for part in run_steps_of(summed))
    assert chain_cost([summed], 8, LINKS).seconds == pytest.approx(parts + 2)
    assert chain_cost([first, summed], 8, LINKS).seconds == pytest.approx(each[0].seconds + parts + 2)
    own = replace(LINKS, own_cores=True)
    assert chain_cost([summed], 8, own).seconds == pytest.approx(parts + 1), "nobody else has had the caches"


@pytest.mark.parametrize("axis, calls", [(0, 2), (1, 0)])
def test_a_step_that_combines_what_comes_from_another_node_is_made_by_python(axis, calls):
    step = Step(EXCHANGE, layout([], 512, partial_axes=[axis]), layout([[axis]], 512))
    assert chain_cost([step], 8, LINKS).seconds == pytest.approx(step_cost(step, 8, LINKS).seconds + calls)


@pytest.mark.parametrize("call_seconds, chosen", [(0.0, "all_reduce"), (1.0, "one exchange")])
def test_within_a_node_one_compiled_fold_beats_two_calls(call_seconds, chosen):
    """Each of four folds all that they contribute, or a quarter of it; the latter is fewer bytes, and not compiled."""
    links = replace(LINKS, node_size=4, node_latency=0, call_seconds=call_seconds, node_bandwidth=1e9)
    plan = sg.plan_reshard(sg.Sharding(GRID, [], partial_axes=[0, 1]), sg.Sharding(GRID, []), (64,), "f8", links=links)
    assert plan.chosen == chosen
    apart = replace(links, node_size=2)
    plan = sg.plan_reshard(sg.Sharding(GRID, [], partial_axes=[0, 1]), sg.Sharding(GRID, []), (64,), "f8", links=apart)
    assert "one exchange" not in [plan.chosen, *[each.name for each in plan.alternatives]]


@pytest.mark.parametrize("bus", [None, 4.0, 2.0, 1.5, 1.0])
def test_who_rests_leaves_its_share_to_others(bus):
    """One of two copies all bytes of the other, which rests: it is as fast as alone.  Where both copy, they share."""
    source, target = sg.Grid((1,)), sg.Grid((1,), ranks=[1])
    step = Step(EXCHANGE, layout([], 1, source), layout([], 1, target))
    links = free_links(node_bandwidth=8.0, bus_bandwidth=None if bus is None else 8 * bus)
    assert step_cost(step, 8, links).seconds == pytest.approx(1)
    if bus is not None:
        grid = sg.Grid((2,))
        both = Step(EXCHANGE, layout([[0], []], 4, grid), layout([[], [0]], 4, grid))
        assert step_cost(both, 8, links).seconds == pytest.approx(4 * max(1, 2 / bus))


def test_exchanges_that_go_one_way_are_faster():
    """All cells of a grid of two go to one of two on the other node: bytes leave one node, and enter the other."""
    ends = sg.Sharding(sg.Grid((2,)), [[0]]), sg.Sharding(sg.Grid((2,), ranks=[2, 3]), [[], [0]])
    before, after = (Layout(each, (512, 512)) for each in ends)
    links = LinkModel(node_size=2, cable_bandwidth=1e6, network_latency=0, message_seconds=0, memory_bandwidth=1e99)
    both, one = (
        step_cost(Step(EXCHANGE, before, after), 8, each).seconds for each in (links, replace(links, one_way=1.6))
    )
    assert both == pytest.approx(512 * 512 * 8 / 1e6, rel=1e-3) and one == pytest.approx(both / 1.6, rel=1e-3)
