"""The groups of operations on their nodes, and what their meetings cost by the model."""

import doctest
import random
from dataclasses import replace

import numpy as np
import pytest
from support.links import free_links

import spmd_grid as sg
from spmd_grid.links import costs as costs_module
from spmd_grid.links import crowds as crowds_module
from spmd_grid.links.costs import COMPILED, agreement_seconds, operation_seconds
from spmd_grid.links.crowds import Crowd, crowd_of
from spmd_grid.links.model import LinkModel

FREE_COPIES = [(1, 1e99), (1 << 40, 1e99)]  # measured, and taking no time


def crowd_by_hand(grid, axes, nodes):
    """The first group's crowd, device by device; ``nodes``: by device."""
    members = [0]
    for axis in axes:
        members = [device + grid.strides[axis] * i for device in members for i in range(grid.shape[axis])]
    at = [nodes[device] for device in members]
    on_node = max(map(at.count, at))
    enters = [node for i, node in enumerate(at) if node != at[i - 1]]
    entries = max(map(enters.count, enters), default=1)
    groups = -(-max(np.bincount(nodes)) // on_node)
    return Crowd(len(at), len(set(at)), on_node, int(groups), entries)


def test_crowds_are_those_of_devices_one_by_one():
    rng = random.Random(3)
    for _ in range(400):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
        grid, node_size = sg.Grid(shape), rng.randint(1, 30)
        axes = tuple(rng.sample(range(len(shape)), rng.randint(0, len(shape))))
        nodes = [device // node_size for device in range(grid.size)]
        for links in (LinkModel(node_size=node_size), LinkModel(nodes=nodes)):
            assert crowd_of(grid, axes, links) == crowd_by_hand(grid, axes, nodes), (shape, axes, node_size)


@pytest.mark.parametrize("node_size, nodes", [(1, 1 << 40), (1 << 20, 1 << 20), (1 << 40, 1)])
def test_crowds_of_grids_that_nobody_could_list(node_size, nodes):
    crowd = crowd_of(sg.Grid((1 << 20, 1 << 20)), (0, 1), LinkModel(node_size=node_size))
    assert (crowd.members, crowd.nodes, crowd.on_node) == (1 << 40, nodes, node_size)


@pytest.mark.parametrize(
    "shape, node_size, seconds",
    [
        ((1,), 1, 25),  # a compiled call
        ((4,), 4, 100 + 25),  # which meets in memory
        ((4,), 2, 25 + 2 * 100 + 10),  # in memory before and after lines cross
        ((10,), 2, 25 + 2 * 100 + 10 + 1),  # four other nodes, of which each member serves two
        ((4,), 1, 25 + 10 + 2),  # a message to each
        ((16,), 1, 2 * 1600 + 7 + 4 * 10),  # by MPI, in rounds; between them, Python finds cold caches
        ((40,), 2, 2 * 1600 + 7 + 6 * 10),  # a member would have to serve ten nodes
    ],
)
def test_meetings(shape, node_size, seconds):
    links = LinkModel(
        node_size=node_size,
        call_seconds=1600,
        wake_seconds=7,
        node_latency=100,
        step_seconds=1e6,
        network_latency=10,
        message_seconds=1,
    )
    grid = sg.Grid(shape)
    assert agreement_seconds(links, crowd_of(grid, (0,), links)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "ranks, node_size, seconds",
    [
        (4, 2, 25 + 100 + 10),  # each member's own message, then what the others of the node have received
        (6, 2, 25 + 100 + 10 + 1),  # to one member of each other node
        (4, 1, 25 + 10 + 2),  # as without
        (5, 2, 25 + 2 * 100 + 10),  # the last node has one: each carries for a pair of nodes
        (10, 2, 25 + 2 * 100 + 10 + 1),  # too many
        (16, 1, 1600 + 4 * 10),  # by MPI
    ],
)
def test_meetings_of_processes_with_a_core_each(ranks, node_size, seconds):
    links = LinkModel(
        node_size=node_size, call_seconds=1600, node_latency=100, network_latency=10, message_seconds=1, own_cores=True
    )
    grid = sg.Grid((ranks,))
    assert agreement_seconds(links, crowd_of(grid, (0,), links)) == pytest.approx(seconds)
    assert operation_seconds("all_gather", 8, grid, (0,), replace(links, node_bandwidth=1e99)) == pytest.approx(seconds)


@pytest.mark.parametrize("own_cores, of_process", [(False, 2), (True, 1)])
def test_bytes_of_small_arrays_that_a_process_sends(own_cores, of_process):
    """A process sends the arrays of its node, or its own alone; the cable carries those of the node."""
    links, grid = free_links(network_bandwidth=1, own_cores=own_cores), sg.Grid((4,))
    assert operation_seconds("all_gather", 2048, grid, (0,), links) == pytest.approx(of_process * 2048)
    slower = replace(links, cable_bandwidth=0.1)
    assert operation_seconds("all_gather", 2048, grid, (0,), slower) == pytest.approx(20 * 2048)


@pytest.mark.parametrize(
    "source, target, seconds",
    [
        (([[0], [1]]), ([[0], []]), 3 * COMPILED),  # rows stay on their nodes: the step waits as long
        (
            ([[0], [1]]),
            ([[], [1]]),
            1 + 2 * 0.5 + 3 * COMPILED,
        ),  # columns reach all nodes
        (([[0], []]), ([[0], [1]]), 3 * COMPILED),  # nothing moves
        (([[0], []]), ([[0, 1], []]), 3 * COMPILED),
    ],
    ids=str,
)
def test_plans_meet_where_they_connect(source, target, seconds):
    links = LinkModel(node_size=2, call_seconds=3, node_latency=0.5, network_latency=1, message_seconds=0)
    grid = sg.Grid((2, 2))
    plan = sg.plan_reshard(sg.Sharding(grid, source), sg.Sharding(grid, target), (256, 256), "f8", links=links)
    assert plan.run_seconds - plan.seconds == pytest.approx(seconds)


@pytest.mark.parametrize("dtype, crosses_once", [("f4", True), ("f8", True), ("c16", False)])
def test_small_arrays_travel_with_the_headers(dtype, crosses_once):
    """All members get all arrays, by one message for each pair of nodes; larger ones take another round."""
    links = LinkModel(node_size=2, node_latency=0, network_latency=1, cable_bandwidth=1e3, memory_bandwidth=1e99)
    grid, itemsize = sg.Grid((4,)), np.dtype(dtype).itemsize
    rows, columns = sg.Sharding(grid, [[0], []]), sg.Sharding(grid, [[], [0]])
    plan = sg.plan_reshard(rows, columns, (32, 64), dtype, links=links)
    assert (plan.run_seconds == pytest.approx(1 + 2 * 512 * itemsize / 1e3)) == crosses_once


@pytest.mark.parametrize(
    "name, n_bytes, waits",
    [
        ("all_gather", 1 << 14, 1),
        ("all_gather", 1 << 20, 4),  # each member carries 1 MiB, in rounds of 256 KiB
        ("broadcast", 1 << 24, 8),
        ("reduce_scatter", 1 << 22, 2),  # chunks of 512 KiB of the part of each member
        ("all_reduce", 1 << 20, 1),
        ("all_reduce", 1 << 24, 4 * 4),  # of each 4 MiB, chunks of 512 KiB on each of two lanes
        ("shift", 1 << 20, 1),
    ],
)
def test_waits_for_other_nodes(name, n_bytes, waits):
    links, grid = LinkModel(node_size=2), sg.Grid((4,))
    slow = replace(links, wake_seconds=1)
    found = operation_seconds(name, n_bytes, grid, (0,), slow) - operation_seconds(name, n_bytes, grid, (0,), links)
    assert found == pytest.approx(waits), "none in the meeting, which polls"


@pytest.mark.parametrize("side, packs, waits", [(32, False, 0), (256, True, 1), (1024, True, 8), (2048, False, 1)])
def test_relays_within_a_node(side, packs, waits):
    """Half of a block goes to the mate: below 16 KiB with the meeting; from 4 MiB on it is read, and its owner waits.

    Relays are packed first, in steps of 256 KiB.
    """
    links = free_links(node_latency=1000, step_seconds=10, node_bandwidth=1 << 40, memory_bandwidth=1 << 30)
    grid = sg.Grid((2,))
    rows, columns = (sg.Sharding(grid, split) for split in ([[0], []], [[], [0]]))
    plan = sg.plan_reshard(rows, columns, (side, side), "f8", links=links)
    kept = sent = side * side * 8 / 4
    passes = kept + (sent if packs else 0)
    assert plan.run_seconds == pytest.approx(1000 + 10 * waits + passes / 2**30 + sent / 2**40, rel=1e-12)


@pytest.mark.parametrize(
    "measured, second_wait",
    [
        ({}, 1),
        ({"copies": FREE_COPIES, "own_cores": True}, 1),
        ({"copies": FREE_COPIES, "own_cores": False}, 100),  # they hand a shared core to each other, as in a meeting
    ],
    ids=["default", "own cores", "shared cores"],
)
def test_steps_of_relays_whose_ends_do_different_work(measured, second_wait):
    """One keeps half of its rows, and gives 2 MiB to the other, in 8 steps: both wait twice in each but the first."""
    links = free_links(node_latency=100, step_seconds=1, **measured)
    grid = sg.Grid((2,))
    first = sg.Sharding(sg.Grid((1,)), ())
    plan = sg.plan_reshard(first, sg.Sharding(grid, [[0], []]), (1024, 512), "f8", links=links)
    assert plan.run_seconds == pytest.approx(100 + 8 + 7 * second_wait)


@pytest.mark.parametrize("one_way, process_one_way, seconds", [(2, 1, 4), (1, 2, 4), (2, 4, 2), (4, 2, 2)])
def test_one_process_and_a_node_that_only_receive(one_way, process_one_way, seconds):
    """A gather between two nodes of one process each: what is slower counts, the process or the cable."""
    links = free_links(cable_bandwidth=1, network_bandwidth=1, one_way=one_way, process_one_way=process_one_way)
    n = 1 << 24
    found = operation_seconds("gather", 4 * n, sg.Grid((2,)), (0,), replace(links, node_size=1))
    assert found == pytest.approx(seconds * n)


@pytest.mark.parametrize(
    "name, nodes, into, out_of",
    [
        ("gather", 2, 2, 0),
        ("scatter", 2, 0, 2),
        ("broadcast", 2, 0, 1),
        ("broadcast", 3, 1, 1),  # the node between gets it and sends it on
        ("all_gather", 2, 2, 2),
        ("reduce_scatter", 2, 0.5, 0.5),  # the sum of a node, of what the members of the other one get
        ("reduce_scatter", 3, 2 / 3, 2 / 3),
        ("all_reduce", 2, 1, 1),
        ("all_reduce", 3, 4 / 3, 4 / 3),
        ("reduce", 2, 1, 0),
        ("reduce", 3, 1 + 2 / 16, 1 + 2 / 16),  # passed on, and to root, in chunks of a 16th
        ("shift", 2, 1, 1),
    ],
)
def test_bytes_that_go_one_way_are_faster(name, nodes, into, out_of):
    """A node passes 1 byte per second each way as long as bytes go both ways, and 1.2 of the rest."""
    links = free_links(cable_bandwidth=1, one_way=1.2)
    n, grid = 1 << 24, sg.Grid((2 * nodes,))
    found = operation_seconds(name, n * 2 * nodes if name == "scatter" else n, grid, (0,), links) / n
    members = 2 * nodes * (nodes - 1) / nodes / 2 if name in ("gather", "scatter", "all_gather") else 1
    assert found == pytest.approx((min(into, out_of) + abs(into - out_of) / 1.2) * members, rel=1e-3)


def test_messages_of_small_operations():
    """A small reduction sends one message for each lane."""
    links, grid = LinkModel(node_size=2, network_latency=0, message_seconds=0), sg.Grid((4,))
    busy = replace(links, message_seconds=1)
    for name, messages in (("reduce_scatter", 1), ("all_reduce", 1), ("all_to_all", 2), ("scatter", 2)):
        n = 40_000
        found = operation_seconds(name, n, grid, (0,), busy) - operation_seconds(name, n, grid, (0,), links)
        assert found == pytest.approx(messages), name


@pytest.mark.parametrize(
    "name, in_memory, in_caches",
    [
        ("all_reduce", 1, 2.5),  # arrays are read and results written; halves, sums and results go from cache to cache
        ("reduce", 1, 2.5),
        ("reduce_scatter", 1, 1.5),
        ("all_to_all", 0.5, 0),  # what comes from the other node lands where it is to lie
        ("shift", 2, 0),
    ],
)
def test_copies_within_nodes_in_operations_between_them(name, in_memory, in_caches):
    """The sums of a fold, and what comes, stay in the caches; all else comes from memory and goes there."""
    n, grid = 1 << 24, sg.Grid((4,))
    links = free_links(memory_bandwidth=1 << 20, copies=[(1 << 23, 1 << 24), (1 << 30, 1 << 20)])
    none = free_links()
    found = operation_seconds(name, n, grid, (0,), links) - operation_seconds(name, n, grid, (0,), none)
    assert found == pytest.approx((in_memory * n / (1 << 20) + in_caches * n / (1 << 24)), rel=1e-3)


@pytest.mark.parametrize(
    "name, own_cores, calls",
    [
        ("gather", False, 2),
        ("gather", True, 1),
        ("all_gather", True, 1 + 8 / 2),  # in eight rounds
        ("all_reduce", True, 1 + 4 * 4 / 2),  # in four chunks of each 4 MiB
    ],
)
def test_calls_of_python_in_operations_between_nodes(name, own_cores, calls):
    links = free_links(own_cores=own_cores)
    slow, n = replace(links, call_seconds=1), 1 << 24
    found = [operation_seconds(name, n, sg.Grid((4,)), (0,), each) for each in (slow, links)]
    assert found[0] - found[1] == pytest.approx(calls + COMPILED)


def test_a_plan_without_steps_copies():
    links = LinkModel(call_seconds=3, memory_bandwidth=64)
    rows = sg.Sharding(sg.Grid((2,)), [[0]])
    plan = sg.plan_reshard(rows, rows, (4, 4), "f8", links=links)
    assert plan.run_steps == () and plan.run_seconds == pytest.approx(3 + 1)


@pytest.mark.parametrize("module", [costs_module, crowds_module], ids=["costs", "crowds"])
def test_examples_of_costs(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
