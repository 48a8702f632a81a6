"""Copies in the caches of a node and past them: their law, how it is found from times, and what steps take by it."""

import doctest
import re
from dataclasses import replace

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.links import copies as copies_module
from spmd_grid.links import measure_memory
from spmd_grid.links.copies import copy_seconds, near_seconds, run_starts
from spmd_grid.links.measure_memory import fitted
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.planner.cost import chain_cost, step_cost
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_TO_ALL, Step

MIB = 1 << 20
# A MiB per second past the caches, ten in them; they hold 4 MiB of each process.
CACHED = LinkModel(
    node_size=2,
    node_latency=0,
    node_bandwidth=10 * MIB,
    memory_bandwidth=MIB,
    cache_bandwidth=10 * MIB,
    cache_bytes=4 * MIB,
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


def test_the_first_of_what_is_touched_is_in_the_cache_of_the_core():
    """Own memory is copied at twice the pace of the caches where the core's holds it; that of others is not."""
    links = replace(CACHED, core_bandwidth=20 * MIB, core_bytes=MIB)
    for touched, seconds in ((0, 0.05), (1, 0.05), (2, 0.075), (4, 0.0875), (8, 0.5 + 0.05 - 0.05 / 8)):
        assert copy_seconds(links, MIB, touched * MIB) == pytest.approx(seconds)
        assert near_seconds(links, MIB, 2, touched * MIB) == near_seconds(CACHED, MIB, 2, touched * MIB)


def test_processes_that_wait_for_no_other_have_more_of_the_caches():
    links = replace(CACHED, alone_bandwidth=40 * MIB, alone_bytes=2 * MIB, alone_cache_bytes=8 * MIB)
    for touched, seconds in ((1, 0.025), (4, 0.0625), (8, 0.1 - 0.25 * 0.075), (16, 0.55 - 0.125 * 0.075)):
        assert copy_seconds(links, MIB, touched * MIB, alone=True) == pytest.approx(seconds)
        assert copy_seconds(links, MIB, touched * MIB) == copy_seconds(CACHED, MIB, touched * MIB)
    assert copy_seconds(CACHED, MIB, MIB, alone=True) == copy_seconds(CACHED, MIB, MIB), "a model that does not say it"


@pytest.mark.parametrize(
    "source, target, runs",
    [
        ([[], []], [[0, 1], []], 1),  # rows are one run
        ([[], []], [[], [0, 1]], 724),
        ([[], []], [[0], [1]], 362),
        ([[0], [1]], [[0, 1], []], 181 + 1 + 181),  # what is kept, packed and landed
        ([[0, 1], []], [[0], []], 3),
    ],
    ids=str,
)
def test_runs_of_memory(source, target, runs):
    """Runs of 2 KiB and more, some of which are all of a box."""
    links = replace(CACHED, memory_bandwidth=1e99, cache_bandwidth=None, node_bandwidth=1e99, run_seconds=1)
    found = sg.plan_reshard(
        sg.Sharding(GRID, source), sg.Sharding(GRID, target), (724, 724), "f8", "direct", links=links
    ).seconds
    assert found == pytest.approx(runs)


def test_short_runs():
    """Runs of 256 bytes take a fourth of what a run of a KiB takes; of longer ones, the first KiB."""
    assert run_starts(8, 8 << 8) == 2 and run_starts(8, 8 << 10) == run_starts(8, 8 << 20) == 8


@pytest.mark.parametrize("core", [0.25, 0.5, 3])
@pytest.mark.parametrize("cache", [3, 5, 8])
def test_the_sizes_of_caches_are_found_from_times(cache, core):
    touched = [n * MIB for n in (0.25, 0.5, 1, 2, 4, 8, 16, 30)]
    links = LinkModel(memory_bandwidth=5e9, cache_bandwidth=22e9, cache_bytes=cache * MIB)
    links = replace(links, core_bandwidth=40e9, core_bytes=int(core * MIB))
    noise = np.random.default_rng(1).uniform(0.98, 1.02, 8)
    found = fitted(touched, [copy_seconds(links, 1, n) * factor for n, factor in zip(touched, noise, strict=True)])
    for n in touched:
        guess = LinkModel(**found._asdict())
        assert copy_seconds(guess, 1, n) == pytest.approx(copy_seconds(links, 1, n), rel=0.1)


def test_caches_that_hold_everything():
    found = fitted([4 * MIB, 30 * MIB], [1e-10, 1e-10])
    assert found.cache_bandwidth == pytest.approx(1e10) and found.memory_bandwidth == pytest.approx(1e10)


@pytest.mark.parametrize(
    "source, target, side, seconds",
    [
        # 4 MiB are cut: 1 MiB is copied from 1 MiB.
        ([[], []], [[0, 1], []], 724, 0.1),
        # Each keeps half a MiB, packs as much for its mate, and lands as much: one and a half, of 2 MiB.
        ([[0], [1]], [[0, 1], []], 724, 0.15),
        # Four times as much, of 8 MiB, of which half is in the caches.
        ([[0], [1]], [[0, 1], []], 1448, 6 * 0.55),
        # Each packs 4 MiB of 12, and keeps them: it reads them twice, but the second time from its core's cache.
        ([[0, 1], []], [[0], []], 1448, 2.5 * 4 * 0.7),
        # The first of a node has all cells of both, and packs and keeps the same half; the other one lands it.
        ([[1], []], [[0], []], 724, 0.3),
    ],
    ids=str,
)
def test_steps_within_nodes(source, target, side, seconds):
    """Boxes of up to 4 MiB pass through a ring, which the caches hold; the busiest process counts."""
    assert step_seconds(sg.Sharding(GRID, source), sg.Sharding(GRID, target), side) == pytest.approx(seconds, rel=0.01)


def test_folds_read_what_is_kept():
    """Of two contributions of 1 MiB, one is packed and taken, and the other one is read, for one result."""
    found = step_seconds(sg.Sharding(GRID, [[0]], partial_axes=[1]), sg.Sharding(GRID, [[0, 1]]), 724)
    assert found == pytest.approx((1 + 1 + 1 / 2) / 10, rel=0.01)


def step_seconds(source, target, side):
    return sg.plan_reshard(source, target, (side, side), "f8", "direct", links=CACHED).seconds


@pytest.mark.parametrize("module", [copies_module, measure_memory])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_caches_hold_a_part_of_all_that_a_run_touches():
    """A step within nodes that follows one between them: alone it touches 2 MiB, which the caches hold."""
    links = replace(CACHED, network_latency=0, network_bandwidth=1e99, cable_bandwidth=1e99, message_seconds=0)
    blocks, crossed, rows = (sg.Sharding(GRID, split) for split in ([[0], [1]], [[], [1, 0]], [[0], []]))
    shape = (1024, 512)  # a MiB of each process, and 2 MiB of each row
    first, second = (Layout(each, shape) for each in (crossed, blocks))
    steps = [Step(ALL_TO_ALL, first, second, (0,), (0, 1)), Step(ALL_GATHER, second, Layout(rows, shape), (1,), (1,))]
    near = step_cost(steps[1], 8, links).seconds
    assert near == pytest.approx(0.25)  # three copies of a MiB, one of which is half a copy
    # 4 MiB of arrays, and half a MiB each way in the system's buffers: the caches hold four of five.
    before = step_cost(steps[0], 8, links, 2 * MIB + MIB).seconds
    slower = 0.8 / 10 + 0.2
    assert chain_cost(steps, 8, links).seconds - before - links.call_seconds == pytest.approx(2.5 * slower)


def test_what_a_plan_prints_adds_up():
    """Steps are priced as in a run of all of them, in which the caches hold less than in a run of one alone."""
    links = replace(CACHED, call_seconds=1.5)
    source, target = sg.Sharding(GRID, [[0], [1]]), sg.Sharding(GRID, [[], [0]])
    plan = sg.plan_reshard(source, target, (1024, 512), "f8", "basis", links=links)
    lines = str(plan).splitlines()
    parts = [float(line.split()[0]) for line in lines if re.match(r"     [\d.]+ s\b", line)]
    (total,) = (float(line.split()[2]) for line in lines if line.startswith("in all"))
    assert len(parts) == 3 and "1.50 s for the Python code" in str(plan)
    assert sum(parts) == pytest.approx(total, abs=0.015)
    assert parts[0] > step_cost(plan.steps[0], 8, links).seconds
