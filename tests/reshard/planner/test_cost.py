"""The model of the links: what it is made of, what steps cost by it, and which links a step goes by."""

import dataclasses
import doctest
import math
import random
from dataclasses import replace

import pytest
from support.reshard.reshard_oracle import random_sharding

from spmd_grid.errors import ShardingError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.crowds import crowd_of
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner import cost as cost_module
from spmd_grid.reshard.planner.cost import step_cost
from spmd_grid.reshard.planner.node_traffic import probes
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    EXCHANGE,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    SWAP,
    Step,
)
from spmd_grid.reshard.volume.totals import exchange_totals

# Round numbers: a second per message, one byte per second, memory ten times as fast.
SLOW = LinkModel(
    network_latency=1, network_bandwidth=1, node_latency=0.5, node_bandwidth=2, memory_bandwidth=10, message_seconds=0
)


def layout(split, shape=(8, 8), grid=(4,), **options):
    return Layout(Sharding(grid if isinstance(grid, Grid) else Grid(grid), split, **options), shape)


# -- steps by hand: 4 devices, 8 x 8 cells of one byte -----------------------------------------------------------------


def test_local_steps_send_nothing():
    for kind, target in ((SLICE, layout([[0]])), (MARK_PARTIAL, layout([], partial_axes=[0]))):
        cost = step_cost(Step(kind, layout([]), target, (0,)), 1, SLOW)
        cells = 64 if kind == MARK_PARTIAL else 16
        assert (cost.bytes, cost.messages, cost.peak) == (0, 0, 64 + cells)
        assert cost.seconds == cells / 10


def test_all_gather():
    cost = step_cost(Step(ALL_GATHER, layout([[0]]), layout([]), (0,), (0,)), 1, SLOW)
    assert (cost.bytes, cost.messages) == (48, 2)  # log2 4
    assert cost.seconds == 2 * 1 + 48 / 1 + 64 / 10
    assert cost.peak == 16 + 64 + 16 + 48


def test_reduce_scatter_and_all_reduce():
    partial = layout([], partial_axes=[0])
    scattered = step_cost(Step(REDUCE_SCATTER, partial, layout([[0]]), (0,), (0,)), 1, SLOW)
    assert (scattered.bytes, scattered.messages) == (48, 3)
    assert scattered.seconds == pytest.approx(1 + 48 + (48 + 2 * 64) / 10)
    reduced = step_cost(Step(ALL_REDUCE, partial, layout([]), (0,)), 1, SLOW)
    gathered = step_cost(Step(ALL_GATHER, layout([[0]]), layout([]), (0,), (0,)), 1, SLOW)
    assert (reduced.bytes, reduced.messages) == (2 * 48, 3 + 2)
    assert reduced.seconds == pytest.approx(scattered.seconds + gathered.seconds)


def test_exchanges():
    """Rows to columns: 3 messages of 2 x 2 cells to and fro, all under way at once."""
    for kind in (EXCHANGE, ALL_TO_ALL):
        axes = (0,) if kind == ALL_TO_ALL else ()
        cost = step_cost(Step(kind, layout([[0]]), layout([[], [0]]), axes), 1, SLOW)
        assert (cost.bytes, cost.messages, cost.peak) == (12, 3, 16 + 16 + 3 * 12)
        assert cost.seconds == 1 + 12 / 1 + (12 + 16) / 10


def test_an_exchange_that_combines_holds_all_contributions():
    cost = step_cost(Step(EXCHANGE, layout([], partial_axes=[0]), layout([])), 1, SLOW)
    assert (cost.bytes, cost.messages) == (3 * 64, 3)
    assert cost.peak == 64 + 64 + 3 * 3 * 64 + 4 * 64
    assert cost.seconds == pytest.approx(1 + 192 + (192 + 2 * 256) / 10)
    busy = step_cost(Step(EXCHANGE, layout([], partial_axes=[0]), layout([])), 1, replace(SLOW, message_seconds=2))
    assert busy.seconds == pytest.approx(cost.seconds + 3 * 2), "a process is busy with each message"


@pytest.mark.parametrize("itemsize", [1, 1000])
def test_broadcast_takes_the_faster_way(itemsize):
    n = 64 * itemsize
    cost = step_cost(Step(BROADCAST, layout([], grid=(1,)), layout([], grid=(8,))), itemsize, SLOW)
    assert cost.bytes == n
    tree, spread = 3 * (1 + n), 6 + 2 * n * 7 / 8
    assert cost.seconds == pytest.approx(min(tree, spread) + n / 10)
    latent = dataclasses.replace(SLOW, network_latency=1e6)
    assert step_cost(Step(BROADCAST, layout([], grid=(1,)), layout([], grid=(8,))), itemsize, latent).messages == 3


def test_within_a_node_nothing_is_packed():
    """Small boxes come with the meeting; what a process has itself is one pass over memory."""
    near = replace(SLOW, node_size=4)
    cost = step_cost(Step(EXCHANGE, layout([[0]]), layout([[], [0]])), 1, near)
    assert (cost.bytes, cost.messages) == (12, 3)
    assert cost.seconds == pytest.approx(near.node_latency + 12 / near.node_bandwidth + 4 / near.memory_bandwidth)


@pytest.mark.parametrize("n_bytes", [1 << 22, 1 << 26])
@pytest.mark.parametrize(("members", "passes"), [(2, 2.25), (4, 2.625)])
def test_folds_within_a_node_are_relayed(n_bytes, members, passes):
    """At any size: all but the own part is packed, and taken; the own part is read, which is half of a copy."""
    links = LinkModel(
        node_latency=0, step_seconds=0, node_bandwidth=1e9, memory_bandwidth=1e9, call_seconds=0, node_size=members
    )
    partial = layout([[], []], (n_bytes // 8, 1), (members,), partial_axes=[0])
    rows, whole = (layout(split, (n_bytes // 8, 1), (members,)) for split in ([[0], []], [[], []]))
    seconds = step_cost(Step(EXCHANGE, partial, rows), 8, links).seconds
    assert seconds == pytest.approx((2 - 1.5 / members) * n_bytes / 1e9)
    seconds = step_cost(Step(EXCHANGE, partial, whole), 8, links).seconds  # and the fold is packed, and taken
    assert seconds == pytest.approx(passes * n_bytes / 1e9)


def test_nothing_moves():
    for kind, axes in ((EXCHANGE, ()), (SWAP, (0,))):
        cost = step_cost(Step(kind, layout([[0]]), layout([[0]]), axes), 1, SLOW)
        assert (cost.bytes, cost.messages) == (0, 0)
        assert cost.seconds == 16 / 10
    alone = step_cost(Step(ALL_REDUCE, layout([], grid=(1,), partial_axes=[0]), layout([], grid=(1,)), (0,)), 1, SLOW)
    assert (alone.bytes, alone.messages) == (0, 0)


# -- against each device -----------------------------------------------------------------------------------------------


def test_random_exchanges():
    """Bytes and memory are those of the busiest device, messages at most those of the busiest."""
    rng = random.Random(12)
    for _ in range(200):
        grid = Grid(rng.choice([(2,), (6,), (2, 3), (4, 4), (2, 2, 2)]))
        target_grid = grid if rng.random() < 0.7 else Grid(rng.choice([(3,), (6,), (3, 2)]))
        shape = [rng.choice([1, 3, 5, 12, 40]) for _ in range(2)]
        source, target = (
            Layout(random_sharding(rng, each, shape, plain=rng.random() < 0.5), shape) for each in (grid, target_grid)
        )
        move = Redistribution(source, target, 8)
        cost = step_cost(Step(EXCHANGE, source, target), 8, LinkModel())
        totals = exchange_totals(move)
        at, to = ([each.multi_index(n) for n in range(each.size)] for each in (grid, target_grid))
        receives, sends = [len(move.receives(coords)) for coords in to], [len(move.sends(coords)) for coords in at]
        copies = any(grid.shape[axis] > 1 for axis in source.sharding.replicated_axes)
        assert cost.bytes == totals.most_received
        assert cost.seconds > 0 or not math.prod(shape)
        assert (cost.messages == 0) == (cost.bytes == 0)
        if not (copies or target.sharding.halo_sizes):
            assert cost.messages <= max(*receives, *sends)
            probed = {tuple(c) for c in probes(grid)}, {tuple(c) for c in probes(target_grid)}
            expected = max(
                *[n for n, coords in zip(sends, at) if coords in probed[0]],
                *[n for n, coords in zip(receives, to) if coords in probed[1]],
            )
            assert cost.messages == max(expected, 1 if cost.bytes else 0)
        arrays = [
            max(math.prod(each.local_shape(coords)) for coords in all_coords) * 8
            for each, all_coords in ((source, at), (target, to))
        ]
        assert cost.peak == sum(arrays) + totals.most_received + 2 * totals.most_sent


def test_a_million_devices():
    """All to all over both axes: 65536 devices have rows and want a piece from each of the others."""
    grid = Grid((1024, 1024))
    rows, columns = (layout(split, (65536, 65536), grid) for split in ([[0, 1]], [[], [0, 1]]))
    cost = step_cost(Step(EXCHANGE, rows, columns), 8, LinkModel())
    assert (cost.bytes, cost.messages) == (65535 * 8, 65535)
    swap = step_cost(
        Step(SWAP, layout([[0], [1]], (65536, 65536), grid), layout([[1], [0]], (65536, 65536), grid)), 8, SLOW
    )
    assert (swap.bytes, swap.messages) == (64 * 64 * 8, 1)


# -- which links -------------------------------------------------------------------------------------------------------


def latency_of(step, links) -> float:
    """The latency of one round: what costs do not share with a model without latency, by rounds."""
    quick = dataclasses.replace(
        links, network_latency=0, node_latency=0, axes=[(axis, 0, speed) for axis, _, speed in links.axes]
    )
    cost = step_cost(step, 1, links)
    nodes = crowd_of(step.target.grid, step.grid_axes, links).nodes if step.kind == ALL_GATHER else 2
    rounds = max(1, math.ceil(math.log2(nodes)))
    return (cost.seconds - step_cost(step, 1, quick).seconds) / rounds


def test_the_slowest_axis_crossed_sets_the_pace():
    links = dataclasses.replace(SLOW, axes={0: (4, 1), 1: (8, 1), 2: (16, 1)})

    def step(kind, source, target, axes=(), **options):
        return Step(kind, *(layout(split, (8, 8, 8), (2, 2, 2)) for split in (source, target)), axes, **options)

    assert latency_of(step(ALL_GATHER, [[0]], [], (0,)), links) == pytest.approx(4)
    assert latency_of(step(ALL_GATHER, [[0, 1]], [], (0, 1)), links) == pytest.approx(8)
    assert latency_of(step(SWAP, [[0], [2]], [[2], [0]], (0, 2)), links) == pytest.approx(16)
    # An exchange names no axes: those that cut both sides alike are not crossed, nor those that cut the target alone.
    assert latency_of(step(EXCHANGE, [[0], [1]], [[1], [0]]), links) == pytest.approx(8)
    assert latency_of(step(EXCHANGE, [[2, 0]], [[2], [0]]), links) == pytest.approx(4)
    assert latency_of(step(EXCHANGE, [[0], []], [[], [0], [2]]), links) == pytest.approx(4)


def test_nodes():
    """Consecutive processes share a node: axis 1 of 2x4 stays within nodes of 4, axis 0 leaves them.

    A meeting is all that a few bytes wait for within a node.
    """
    links = dataclasses.replace(SLOW, node_size=4, node_latency=0.2)
    for axis, latency in ((0, 1), (1, 0.2)):
        step = Step(ALL_GATHER, layout([[axis]], grid=(2, 4)), layout([], grid=(2, 4)), (axis,))
        assert latency_of(step, links) == pytest.approx(latency)
        assert latency_of(step, dataclasses.replace(links, node_size=8)) == pytest.approx(0.2)
        # Some blocks come from other nodes, others from the own: partners in a row, or replicas of partners.
        mixed = latency_of(step, dataclasses.replace(links, node_size=3))
        assert mixed == pytest.approx(1 + 0.2)
    scattered = Grid((2, 4), ranks=[7, 1, 2, 3, 4, 5, 6, 0])
    step = Step(ALL_GATHER, layout([[1]], grid=scattered), layout([], grid=scattered), (1,))
    assert latency_of(step, links) == pytest.approx(1 + 0.2)  # between nodes, and then within them
    assert latency_of(step, dataclasses.replace(links, node_size=8)) == pytest.approx(0.2)


def test_halos_cross_what_cuts_their_dimension():
    links = dataclasses.replace(SLOW, node_size=2, node_latency=0.2, axes={})
    for halos, latency in (([0, 0, 1, 1], 0.2), ([1, 1, 0, 0], 1)):
        step = Step(EXCHANGE, layout([[0], [1]], grid=(2, 2)), layout([[0], [1]], grid=(2, 2), halo_sizes=halos))
        assert latency_of(step, links) == pytest.approx(latency)


def test_two_grids_share_a_node_or_not():
    source, target = Grid((2,)), Grid((4,), ranks=[4, 5, 6, 7])
    step = Step(EXCHANGE, layout([[0]], grid=source), layout([[], [0]], grid=target))
    assert latency_of(step, dataclasses.replace(SLOW, node_size=8, node_latency=0.2)) == pytest.approx(0.2)
    assert latency_of(step, dataclasses.replace(SLOW, node_size=4)) == pytest.approx(1)


# -- the model itself --------------------------------------------------------------------------------------------------


def test_a_model_is_a_value():
    a, b = LinkModel(axes={1: (1, 2), 0: (3, 4)}), LinkModel(axes=[(0, 3, 4), (1, 1, 2)])
    assert a == b and hash(a) == hash(b) and dataclasses.replace(a) == a
    assert LinkModel() != LinkModel(node_size=2)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"network_latency": -1}, "network_latency is -1; it must be a number of seconds, from 0"),
        ({"node_bandwidth": 0}, "node_bandwidth is 0; it must be a number of bytes per second, more than 0"),
        ({"memory_bandwidth": "fast"}, "memory_bandwidth is 'fast'"),
        ({"network_bandwidth": float("nan")}, "network_bandwidth is nan"),
        ({"node_latency": True}, "node_latency is True"),
        ({"node_size": 0}, "node_size is 0; it must be a number of processes, at least 1"),
        ({"node_size": 2.5}, "node_size is 2.5"),
        ({"axes": {0: 1}}, "axes is {0: 1}; it must map numbers of grid axes"),
        ({"axes": {"x": (1, 1)}}, "must map numbers of grid axes"),
        ({"axes": {-1: (1, 1)}}, "must map numbers of grid axes"),
        ({"axes": {0: (1, 0)}}, "bytes per second more than 0"),
        ({"axes": [(0, 1, 1), (0, 2, 2)]}, "must map numbers of grid axes"),
        ({"axes": 3}, "must map numbers of grid axes"),
    ],
    ids=str,
)
def test_refusals(wrong, words):
    with pytest.raises(ShardingError) as refusal:
        LinkModel(**wrong)
    assert words in str(refusal.value)


def test_examples():
    result = doctest.testmod(cost_module)
    assert result.attempted and not result.failed
