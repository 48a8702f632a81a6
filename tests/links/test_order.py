"""The order of processes that keeps neighbours on one node: the best on small grids, never worse on large ones."""

import doctest
import itertools

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.links import describe as describe_module
from spmd_grid.links import order as order_module
from spmd_grid.links.describe import grid_text
from spmd_grid.links.model import LinkModel
from spmd_grid.links.order import FACE_BYTES, halo_step, ordered_ranks

CABLE = 12.5e9


def cost_by_hand(shape, nodes, links):
    """The seconds, the bytes of the busiest node and the pairs apart, pair by pair; ``nodes``: by device."""
    at = np.array(nodes).reshape(shape)
    out, far, apart = dict.fromkeys(nodes, 0), np.zeros(shape, int), 0
    for device in np.ndindex(*shape):
        for axis in range(len(shape)):
            other = tuple(c + (i == axis) for i, c in enumerate(device))
            if other[axis] < shape[axis] and at[device] != at[other]:
                apart += 1
                for end in (device, other):
                    out[at[end]] += FACE_BYTES
                    far[end] += 1
    seconds = links.node_latency + FACE_BYTES * sum(min(2, n - 1) for n in shape) / links.node_bandwidth
    by_process = far.max() * (links.message_seconds + FACE_BYTES / links.network_bandwidth)
    seconds += (links.network_latency if apart else 0) + max(by_process, max(out.values()) / links.cable)
    return seconds, max(out.values()), apart


@pytest.mark.parametrize(
    "shape, nodes",
    [
        ((4,), (0, 1, 0, 1)),
        ((2, 3), (0, 0, 1, 1, 2, 2)),
        ((2, 3), (0, 1, 2, 0, 1, 2)),
        ((2, 2), (0, 0, 0, 1)),
        ((2, 2, 2), (0, 0, 0, 1, 1, 1, 2, 2)),
        ((2, 4), (0, 1, 1, 0, 1, 0, 0, 1)),
        ((3, 3), (0, 0, 0, 0, 1, 1, 1, 2, 2)),
    ],
    ids=str,
)
def test_the_best_of_all_orders_on_small_grids(shape, nodes):
    links = LinkModel(nodes=nodes, cable_bandwidth=CABLE)
    number = [links.node_of(process) for process in range(len(nodes))]
    ranks = ordered_ranks(sg.Grid(shape), links) or tuple(range(len(nodes)))
    assert sorted(ranks) == list(range(len(nodes)))
    found = cost_by_hand(shape, [number[process] for process in ranks], links)
    assert found == pytest.approx(tuple(halo_step(sg.Grid(shape, ranks=ranks), links)))
    best = min(cost_by_hand(shape, each, links) for each in set(itertools.permutations(number)))
    assert found == pytest.approx(best)
    for node in set(number):  # the processes of a node go to its devices in the order of their numbers
        there = [process for process in ranks if number[process] == node]
        assert there == sorted(there)


@pytest.mark.parametrize(
    "shape, nodes, boxes",
    [
        ((8, 8), 16, (4, 4)),
        ((4, 4, 8), 8, (2, 2, 2)),
        ((64, 64), 64, (8, 8)),
        ((8, 8, 8), 32, None),
        ((64, 96), 48, None),
        ((8, 8), 7, None),
        ((5, 7), 4, None),
    ],
    ids=str,
)
def test_large_grids(shape, nodes, boxes):
    links = LinkModel(node_size=nodes, cable_bandwidth=CABLE)
    ranks = ordered_ranks(sg.Grid(shape), links)
    assert sorted(ranks) == list(range(np.prod(shape)))
    ordered, plain = halo_step(sg.Grid(shape, ranks=ranks), links), halo_step(sg.Grid(shape), links)
    assert ordered < plain and ordered.crossing <= plain.crossing
    at = np.array(ranks).reshape(shape) // nodes
    if boxes:
        box = at[tuple(slice(side) for side in boxes)]
        assert (box == at.flat[0]).all() and (at == at.flat[0]).sum() == box.size == nodes


def test_exchanges_of_pairs_help_where_nodes_differ():
    nodes = np.repeat(range(5), [9, 8, 7, 7, 5]).tolist()
    links = LinkModel(nodes=nodes, cable_bandwidth=CABLE)
    boxed = [order_module._by_boxes((6, 6), box, [9, 8, 7, 7, 5]) for box in order_module._boxes((6, 6), 9)]
    ranks = ordered_ranks(sg.Grid((6, 6)), links)
    at = sg.Grid((6, 6), ranks=ranks)
    assert halo_step(at, links) < min(cost_by_hand((6, 6), each.tolist(), links) for each in boxed)


def test_nothing_to_gain():
    for shape, links in [((4, 4), LinkModel()), ((2, 2), LinkModel(node_size=4)), ((6,), LinkModel(node_size=2))]:
        assert ordered_ranks(sg.Grid(shape), links) is None


@pytest.mark.parametrize("module", [order_module, describe_module])
def test_examples_of_orders(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


# -- grids of processes ------------------------------------------------------------------------------------------------


def ordered_grid(shape, nodes, **options):
    """A grid in the order of the model, on processes that are on ``nodes``, as far as they know."""
    sg.init_grid((-1,)).process.nodes = nodes
    return sg.init_grid(shape, order="auto", **options)


def test_grids_in_the_order_of_the_model(spmd):
    def body():
        grid = ordered_grid((4,), (0, 1, 0, 1))
        assert grid.grid.ranks == (0, 2, 1, 3) and grid.coords == ([0, 2, 1, 3].index(grid.rank),)
        lines = grid.describe().splitlines()
        assert lines[:4] == [
            "grid 4: 4 processes on 2 nodes",
            "  node 0: processes 0, 2, devices [0:2]",
            "  node 1: processes 1, 3, devices [2:4]",
            "neighbours on one node: axis 0: 2 of 3 pairs",
        ]
        assert [line[:20] for line in lines[4:]] == ["halo step with faces", "  with processes in "]
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        whole = np.arange(13.0) ** 2
        u = sg.from_global(whole, sharding, grid)
        assert (sg.all_gather(u.core, grid, [0], 0) == whole).all()
        assert ((u[2:] - u[:-2]).to_global() == whole[2:] - whole[:-2]).all()
        assert (u.reshard(sg.Sharding(grid, [])).core == whole).all()

    spmd(4, body)


def test_names_and_parts_of_the_processes(spmd):
    def body():
        grid = ordered_grid((2, 2), (0, 0, 2, 2), axis_names=("x", "y"), ranks=[3, 0, 1, 2])
        assert grid.grid.ranks is None and grid.axis_names == ("x", "y"), "nothing is faster than the numbers' order"
        some = sg.init_grid((3,), order="auto", ranks=[2, 1, 3])
        assert some.grid.ranks in [(1, 2, 3), (2, 3, 1), (3, 2, 1)]
        words = sg.init_grid((2, 2), ("x", "y"), ranks=[3, 0, 1, 2]).describe()
        assert "node 1: processes 2-3, devices (0, 0), (1, 1)" in words and "x: 0 of 2 pairs; y: 0 of 2 pairs" in words
        assert 'with order="auto"' not in words and "in the order of their numbers" in words

    spmd(4, body)


def test_one_node_stays_in_order(spmd):
    def body():
        grid = ordered_grid((3,), (0, 0, 0))
        assert grid.grid.ranks is None and grid.describe() == "grid 3: 3 processes on one node"

    spmd(3, body)


def test_other_orders_are_refused_everywhere(spmd):
    def body():
        with pytest.raises(sg.GridError, match='order is .best.; it must be "rank" or "auto"') as refusal:
            sg.init_grid((2,), order="best")
        return str(refusal.value)

    assert len(set(spmd(2, body))) == 1


def test_orders_that_differ_are_found(spmd):
    def body():
        sg.init_grid((-1,), check=True).process.nodes = (0, 1, 0, 1)
        with pytest.raises(sg.MismatchError, match="init_grid"):
            sg.init_grid((4,), order="auto" if sg.init_grid((-1,)).rank else "rank")
        sg.init_grid((-1,), check=False)  # for the tests after this one

    spmd(4, body)


def test_large_grids_in_words():
    words = grid_text(sg.Grid((16, 2, 2)), LinkModel(node_size=3))
    assert words.count("\n  node ") == 16 and "\n  and 6 nodes more\n" in words
    assert "node 1: processes 3-5, devices (0, 1, 1), (1, 0, 0), (1, 0, 1)" in words
