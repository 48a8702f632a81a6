"""Copies in the caches of a node and past them: their law, how it is found from times, and what steps take by it."""

import doctest
import re
from dataclasses import replace

import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.links import copies as copies_module
from spmd_grid.links import measure_memory
from spmd_grid.links.copies import copy_seconds, in_runs, near_seconds, run_seconds
from spmd_grid.links.measure_memory import paces
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.planner import node_work
from spmd_grid.reshard.planner.cost import chain_cost, costs_in_chain, step_cost
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_TO_ALL, SLICE, Step

MIB = 1 << 20
# A MiB per second past the caches, ten in them; they hold 4 MiB of each process.
CACHED = LinkModel(
    node_size=2,
    node_latency=0,
    node_bandwidth=10 * MIB,
    memory_bandwidth=MIB,
    copies=[(4 * MIB, 10 * MIB)],
)


GRID = sg.Grid((2, 2))


@pytest.mark.parametrize("touched, seconds", [(0, 0.1), (4, 0.1), (8, 0.05 + 0.5), (16, 0.025 + 0.75)])
def test_a_part_of_what_is_touched_is_in_the_caches(touched, seconds):
    assert copy_seconds(CACHED, MIB, touched * MIB) == pytest.approx(seconds)
    assert near_seconds(CACHED, MIB, 2, touched * MIB) == pytest.approx(seconds)


def test_models_that_know_no_caches_copy_at_one_pace():
    links = LinkModel(memory_bandwidth=100, node_bandwidth=300, bus_bandwidth=400)
    assert copy_seconds(links, 100, 1 << 40) == copy_seconds(links, 100, 1) == 1
    assert near_seconds(links, 600, 2, 1 << 40) == 3, "the bus is shared by two"


def test_the_time_of_a_copy_grows_in_a_line_between_sizes():
    """A MiB at 20 MiB per second, the next three at 10, and past them at one."""
    links = replace(CACHED, copies=[(MIB, 20 * MIB), (4 * MIB, 4 * MIB / 0.35)])
    for touched, seconds in ((0.5, 0.05), (1, 0.05), (2, 0.15 / 2), (4, 0.35 / 4), (8, 4.35 / 8)):
        assert copy_seconds(links, MIB, touched * MIB) == pytest.approx(seconds)
        near = near_seconds(links, MIB, 2, touched * MIB)
        assert near == pytest.approx(max(0.1, seconds)), "others' memory is no faster than the bus"


def test_processes_that_wait_for_no_other_have_more_of_the_caches():
    links = replace(CACHED, alone_copies=[(2 * MIB, 40 * MIB), (8 * MIB, 20 * MIB)])
    for touched, seconds in ((1, 0.025), (4, (0.05 + 0.35 / 3) / 4), (8, 0.05), (16, (0.4 + 8) / 16)):
        assert copy_seconds(links, MIB, touched * MIB, alone=True) == pytest.approx(seconds)
        assert copy_seconds(links, MIB, touched * MIB) == copy_seconds(CACHED, MIB, touched * MIB)
    assert copy_seconds(CACHED, MIB, MIB, alone=True) == copy_seconds(CACHED, MIB, MIB), "a model that does not say it"


@pytest.mark.parametrize(
    "source, target, runs",
    [
        ([[], []], [[0, 1], []], 0),  # rows are one run
        ([[], []], [[], [0, 1]], 724),
        ([[], []], [[0], [1]], 362),
        ([[0], [1]], [[0, 1], []], 181 + 181),  # what is kept and landed; what is packed is one run
        ([[0, 1], []], [[0], []], 0),
    ],
    ids=str,
)
def test_runs_of_memory(source, target, runs):
    """Runs of 4 KiB and more, of which 4 KiB each take a second longer."""
    free = [(1, 1e99)]
    links = replace(
        CACHED, memory_bandwidth=1e99, copies=free, node_bandwidth=1e99, run_copies=[(1, 4096), (1 << 40, 4096)]
    )
    found = sg.plan_reshard(
        sg.Sharding(GRID, source), sg.Sharding(GRID, target), (724, 2896), "f8", "direct", links=links
    ).seconds
    assert found == pytest.approx(runs)


def test_short_runs():
    """All bytes of short runs take longer; of longer ones the first 4 KiB; of one run none."""
    assert in_runs(8, 8 << 10) == 8 << 10 and in_runs(8, 8 << 12) == in_runs(8, 8 << 20) == 8 << 12
    assert in_runs(1, 1 << 20) == 0


def test_runs_take_longer_by_what_a_run_touches():
    links = replace(
        CACHED, copies=[(MIB, 20 * MIB), (4 * MIB, 10 * MIB)], run_copies=[(MIB, 16 * MIB), (4 * MIB, 5 * MIB)]
    )
    for touched, seconds in ((MIB, 1 / 16 - 1 / 20), (4 * MIB, 0.1), (8 * MIB, 0.05)):
        assert run_seconds(links, MIB, touched) == pytest.approx(seconds)
    assert run_seconds(CACHED, MIB, MIB) == 0, "a model that does not say it"
    assert run_seconds(links, MIB, MIB, alone=True) == run_seconds(links, MIB, MIB)
    own = replace(links, alone_copies=[(MIB, 20 * MIB)], alone_run_copies=[(MIB, 10 * MIB)])
    assert run_seconds(own, MIB, MIB, alone=True) == pytest.approx(0.05)


def test_what_touches_less_is_no_slower():
    """A copy of 2 MiB was disturbed: it takes as long for each byte as one of 4 MiB."""
    touched = paces([MIB, 2 * MIB, 4 * MIB, 8 * MIB], [0.1, 0.9, 1, 8])
    assert touched == [(2 * MIB, 10 * MIB), (4 * MIB, 4 * MIB), (8 * MIB, 4 * MIB), (16 * MIB, MIB)]


@pytest.mark.parametrize(
    "source, target, side, seconds, with_own_cores",
    [
        # 4 MiB are cut: 1 MiB is copied from 1 MiB.
        ([[], []], [[0, 1], []], 724, 0.1, 0.1),
        # Each keeps half a MiB, packs as much for its mate, and lands as much, of 2 MiB.  What it lands, its mate has
        # just packed: on a core that they share it is in the cache, and counts half.
        ([[0], [1]], [[0, 1], []], 724, 0.125, 0.15),
        # Four times as much; 8 MiB are touched, and a ring of one: 4 MiB in 0.4 s, and five more.
        ([[0], [1]], [[0, 1], []], 1448, 5 * 5.4 / 9, 6 * 5.4 / 9),
        # Each packs 4 MiB of 12, and keeps them: it reads them twice, but the second time from its own core's cache.
        ([[0, 1], []], [[0], []], 1448, 2.5 * 4 * 9.4 / 13, 2.5 * 4 * 9.4 / 13),
        # The first of a node has all cells of both, packs 2 MiB, and reads them again; the other one lands them.
        ([[1], []], [[0], []], 724, 4 * 0.1, 4 * 0.1),
    ],
    ids=str,
)
def test_steps_within_nodes(source, target, side, seconds, with_own_cores):
    """Boxes of up to 4 MiB pass through a ring; the busiest process counts."""
    before, after = sg.Sharding(GRID, source), sg.Sharding(GRID, target)
    assert step_seconds(before, after, side) == pytest.approx(seconds, rel=0.01)
    own = replace(CACHED, own_cores=True)
    assert step_seconds(before, after, side, own) == pytest.approx(with_own_cores, rel=0.01)


def test_folds_read_what_is_kept():
    """Of two contributions of 1 MiB, one is packed and taken, and the other one is read, for one result."""
    found = step_seconds(sg.Sharding(GRID, [[0]], partial_axes=[1]), sg.Sharding(GRID, [[0, 1]]), 724)
    assert found == pytest.approx((1 + 1 + 1 / 2) / 10, rel=0.01)


def test_the_lines_of_boxes_are_touched():
    """A fourth of 8 MiB is cut out: 4 MiB are touched with the result, and a line more for each run of columns."""
    columns, rows = (
        step_seconds(sg.Sharding(GRID, [[], []]), sg.Sharding(GRID, to), 1024) for to in ([[], [0, 1]], [[0, 1]])
    )
    assert rows == pytest.approx(0.2, rel=0.01)
    assert columns == pytest.approx(2 * (0.4 + 1 / 16) / (4 + 1 / 16), rel=0.01)


def step_seconds(source, target, side, links=CACHED):
    return sg.plan_reshard(source, target, (side, side), "f8", "direct", links=links).seconds


@pytest.mark.parametrize("module", [copies_module, measure_memory, node_work])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_caches_hold_a_part_of_all_that_a_run_touches():
    """Blocks of a MiB are joined to rows of two, and cut again: alone, joining touches 3 MiB, and a ring of one."""
    blocks, rows, cut = (Layout(sg.Sharding(GRID, split), (1024, 512)) for split in ([[0], [1]], [[0]], [[0, 1]]))
    steps = [Step(ALL_GATHER, blocks, rows, (1,), (1,)), Step(SLICE, rows, cut, (1,), (0,))]
    assert step_cost(steps[0], 8, CACHED).seconds == pytest.approx(0.25)  # three copies of a MiB, one of which is half
    joined, sliced = costs_in_chain(steps, 8, CACHED)
    assert joined.seconds == pytest.approx(2.5 * 1.4 / 5) and sliced.seconds == pytest.approx(0.1)
    assert chain_cost(steps, 8, CACHED).seconds == joined.seconds + sliced.seconds


def test_caches_hold_nothing_where_a_step_crosses():
    links = replace(CACHED, network_latency=0, network_bandwidth=1e99, cable_bandwidth=1e99, message_seconds=0)
    blocks, crossed, rows = (sg.Sharding(GRID, split) for split in ([[0], [1]], [[], [1, 0]], [[0], []]))
    first, second, last = (Layout(each, (1024, 512)) for each in (crossed, blocks, rows))
    steps = [Step(ALL_TO_ALL, first, second, (0,), (0, 1)), Step(ALL_GATHER, second, last, (1,), (1,))]
    alone, *_ = costs_in_chain(steps[:1], 8, links)
    crossing, near = costs_in_chain(steps, 8, links)
    assert near.seconds == pytest.approx(2.5) and crossing.seconds == pytest.approx(alone.seconds)
    assert alone.seconds == pytest.approx(1.5), "a MiB of the result, and half of it packed"


def test_what_a_plan_prints_adds_up():
    links = replace(CACHED, call_seconds=1.5)
    source, target = sg.Sharding(GRID, [[0], [1]]), sg.Sharding(GRID, [[], [0]])
    plan = sg.plan_reshard(source, target, (1024, 512), "f8", "basis", links=links)
    lines = str(plan).splitlines()
    parts = [float(line.split()[0]) for line in lines if re.match(r"     [\d.]+ s\b", line)]
    assert parts == [2.5, pytest.approx(3.0, rel=0.1), 2 * 1.5] and "for the Python code" in str(plan)
    assert next(line for line in lines if line.startswith("in all")).startswith(f"in all {sum(parts):.2f} s,")
