"""Reductions between nodes: small ones gather arrays where they are folded, in place of folds from node to node."""

import pytest

from spmd_grid.exchange.nodes.fold_course import balanced_courses
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.grid.box import Box
from spmd_grid.ops.reduction.crossing.costs import folding_cost, gathering_cost
from spmd_grid.ops.reduction.crossing.folding import FoldedBox

TWO = NodeMap.from_firsts([0, 0, 2, 2])
THREE = NodeMap.from_firsts([0, 0, 2, 2, 4, 4])
WIDE = NodeMap.from_firsts([0] * 4 + [4] * 4)


def gathers(nodes, parts):
    needed = [(part.nodes, part.box.size) for part in parts]
    courses = balanced_courses(nodes.node_of, needed, False, nodes.lanes)
    return folding_cost(parts, courses, nodes, 1) > gathering_cost(parts, nodes, 1)


def all_reduce(nodes, n):
    return [FoldedBox(Box((0,), (n,)), tuple(range(len(nodes.nodes))), range(len(nodes.node_of)))]


def reduce_scatter(nodes, n):
    each = n // len(nodes.node_of)
    return [FoldedBox(Box((i * each,), (i * each + each,)), (node,), (i,)) for i, node in enumerate(nodes.node_of)]


@pytest.mark.parametrize(
    ("nodes", "operation", "most"),
    [
        (TWO, all_reduce, 1 << 15),
        (TWO, reduce_scatter, 1 << 17),
        (THREE, all_reduce, 1 << 16),
        (WIDE, all_reduce, 1 << 14),
    ],
)
def test_what_is_small_is_gathered(nodes, operation, most):
    """At twice the size the bytes take longer than the crossing that they save."""
    assert gathers(nodes, operation(nodes, most)) and not gathers(nodes, operation(nodes, 2 * most))


def test_a_result_for_one_node_takes_one_crossing_either_way():
    parts = [FoldedBox(Box((0,), (1 << 10,)), (1,), (2,))]
    assert not gathers(TWO, parts)
