"""Maps of nodes, and the courses of folds over them."""

from collections import Counter

import pytest

from spmd_grid.exchange.nodes.fold_course import balanced_courses, busiest, fold_courses
from spmd_grid.exchange.nodes.node_map import NodeMap


@pytest.mark.parametrize("firsts", [(0, 0, 0, 3), (0, 0, 2, 2, 2), (0, 1, 0, 1), (0,) * 5 + (5,) * 7, tuple(range(9))])
def test_carriers_share_the_lanes(firsts):
    nodes = NodeMap.from_firsts(firsts)
    for number, members in enumerate(nodes.nodes):
        carriers = [nodes.carrier(number, lane) for lane in range(nodes.lanes)]
        assert sorted(set(carriers)) == sorted(members)  # all members of a node work
        assert all(nodes.node_of[member] == number for member in members)
        for member in members:
            assert [lane for lane, carrier in enumerate(carriers) if carrier == member] == list(nodes.lanes_of(member))
    assert nodes.is_shared == (len(nodes.nodes) > 1 and len(nodes.nodes) < len(firsts))


def folded(course, needed):
    """The sums that nodes have in the end, in the order in which they are made, if node i begins with the name of i."""
    nodes, ends = range(course.nodes), {}
    if course.passes:
        total = "0"
        for node in nodes[1:]:
            total = f"({total} + {node})"
        ends[nodes[-1]] = total
    for node in () if course.passes else course.at:
        total = "0"
        for other in sorted((node, *course.senders(node)))[1:]:
            total = f"({total} + {other})"
        ends[node] = total
    return ends | dict.fromkeys(course.spread, ends[course.at[-1]])


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_all_courses_give_the_same_sum_where_it_is_needed(nodes):
    right = "0"
    for node in range(1, nodes):
        right = f"({right} + {node})"
    for needed in [tuple(range(nodes)), *[(node,) for node in range(nodes)]]:
        for lanes in fold_courses(nodes, needed, 2):
            for course in lanes:
                ends = folded(course, needed)
                assert set(needed) <= set(ends) and set(ends.values()) == {right}
                sent = [(node, other) for node in range(nodes) for other in course.receivers(node)]
                passed = [(node, node + 1) for node in range(1, nodes - 1)] if course.passes else []
                assert sorted([*sent, *passed]) == sorted(course.ways[: len(course.ways) - len(course.spread)])


def fullest(courses, parts):
    loads = Counter()
    for lanes, (_, size, n) in zip(courses, parts, strict=True):
        for course in lanes:
            for way in course.ways:
                loads[way] += size // n
    return busiest(loads)


@pytest.mark.parametrize(
    ("nodes", "parts", "most"),
    [
        (2, [((0, 1), 60, 2)], 60),  # the sum of each crosses
        (2, [((0,), 60, 2)], 60),
        (2, [((0,), 30, 1), ((1,), 30, 1)], 30),  # the two halves cross at once
        (3, [((0, 1, 2), 60, 3)], 80),  # two thirds into each node, and again
        (3, [((0,), 60, 3)], 60),  # passed on
        (3, [((0,), 20, 1), ((1,), 20, 1), ((2,), 20, 1)], 40),
        (4, [((0, 1, 2, 3), 60, 4)], 90),
    ],
)
def test_all_nodes_carry_alike(nodes, parts, most):
    assert fullest(balanced_courses(nodes, parts, 0), parts) == most


def test_small_sums_take_the_fewest_crossings():
    for needed in [(0, 1, 2), (1,)]:
        [lanes] = balanced_courses(3, [(needed, 60, 2)], 1000)
        assert {course.depth for course in lanes} == {1}
