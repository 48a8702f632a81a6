"""Prices of runs of plans beyond those of their steps: meetings that carry small arrays, and several steps."""

from dataclasses import replace

import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.planner.choose import choose
from spmd_grid.reshard.planner.cost import chain_cost, step_cost
from spmd_grid.reshard.planner.steps import ALL_TO_ALL, EXCHANGE, Step

GRID = sg.Grid((2, 2))
# Two nodes of two: a second from node to node, one for Python, a quarter for a wait in memory; bytes cost nothing.
LINKS = LinkModel(
    node_size=2,
    node_latency=0.25,
    network_latency=1,
    call_seconds=1,
    message_seconds=0,
    node_bandwidth=1e99,
    memory_bandwidth=1e99,
    network_bandwidth=1e99,
    cable_bandwidth=1e99,
)


def layout(split, side, grid=GRID, **options):
    return Layout(sg.Sharding(grid, split, **options), (side, side))


@pytest.mark.parametrize(
    "source, target, side, seconds",
    [
        # Processes 1 and 2 meet, one on each node: a compiled call, and the crossing.  The others copy.
        ([[1], [0]], [[0], [1]], 22, 1 + 1 / 20),
        ([[], [0]], [[], [1, 0]], 22, 1 + 1 / 20),
        # Of all four, the members of a node wait for one another before and after.
        ([[0, 1], []], [[], [0, 1]], 32, 1 + 2 * 0.25 + 1 / 20),
        # Arrays of more than 4 KiB cross after the meeting of the two.
        ([[1], [0]], [[0], [1]], 46, 1 + 1 / 20 + 1),
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
    """A step takes one call, or within a node one for each round of half a MiB; each further step begins late."""
    first = Step(ALL_TO_ALL, layout([[], [0, 1]], 512), layout([[1], [0]], 512), (1,), (0, 1))
    second = Step(ALL_TO_ALL, layout([[1], [0]], 512), layout([[1, 0]], 512), (0,), (0, 1))
    costs = [step_cost(step, 8, LINKS) for step in (first, second)]
    assert [cost.staged for cost in costs] == [2 * 512 * 512 * 8 // 8, 0]
    each = sum(cost.seconds for cost in costs)
    assert chain_cost([first, second], 8, LINKS).seconds == pytest.approx(1.02 * each + 2)
    wide = [
        Step(
            step.kind, *[layout(each.sharding.split_axes, 1024) for each in (step.source, step.target)], step.grid_axes
        )
        for step in (first, second)
    ]
    each = sum(step_cost(step, 8, LINKS).seconds for step in wide)
    assert chain_cost(wide, 8, LINKS).seconds == pytest.approx(1.02 * each + 2 + 1)
    assert chain_cost(wide[:1], 8, LINKS) == step_cost(wide[0], 8, LINKS)._replace(staged=2 << 20)


def test_exchanges_that_go_one_way_are_faster():
    """All cells of a grid of two go to one of two on the other node: bytes leave one node, and enter the other."""
    ends = sg.Sharding(sg.Grid((2,)), [[0]]), sg.Sharding(sg.Grid((2,), ranks=[2, 3]), [[], [0]])
    before, after = (Layout(each, (512, 512)) for each in ends)
    links = LinkModel(node_size=2, cable_bandwidth=1e6, network_latency=0, message_seconds=0, memory_bandwidth=1e99)
    both, one = (
        step_cost(Step(EXCHANGE, before, after), 8, each).seconds for each in (links, replace(links, one_way=1.6))
    )
    assert both == pytest.approx(512 * 512 * 8 / 1e6, rel=1e-3) and one == pytest.approx(both / 1.6, rel=1e-3)
