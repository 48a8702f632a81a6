"""Maps of nodes, and the courses of folds over them."""

from collections import Counter

import pytest

from spmd_grid.exchange.nodes.fold_course import busiest, cheapest_courses, fold_courses
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
        for lanes in fold_courses(nodes, needed, range(2)):
            for _, course in lanes:
                ends = folded(course, needed)
                assert set(needed) <= set(ends) and set(ends.values()) == {right}
                sent = [(node, other) for node in range(nodes) for other in course.receivers(node)]
                passed = [(node, node + 1) for node in range(1, nodes - 1)] if course.passes else []
                assert sorted([*sent, *passed]) == sorted(course.ways[: len(course.ways) - len(course.spread)])


def fullest(courses, parts):
    """The load that enters or leaves the busiest node."""
    loads = Counter()
    for lanes, (_, size, _) in zip(courses, parts, strict=True):
        for _, course in lanes:
            for way in course.ways:
                loads[way] += size / len(lanes)
    return busiest(loads)


@pytest.mark.parametrize(
    "firsts", [(0, 0, 2, 2), (0, 0, 0, 3), (0, 0, 2, 2, 4, 4), (0, 1, 2), (0, 1, 0, 3, 4), (0, 0, 2, 3, 4)]
)
def test_all_nodes_carry_alike(firsts):
    nodes = NodeMap.from_firsts(firsts)
    count, size, lanes = len(nodes.nodes), 60, range(nodes.lanes)

    def crossing(parts):
        return fullest(cheapest_courses(count, parts, 0), parts)

    assert crossing([(tuple(range(count)), size, lanes)]) == pytest.approx(2 * size * (count - 1) / count)
    for root in range(count):  # passed on if there are more than two nodes, but not if it had to pass root twice
        most = size if count == 2 or root in (0, count - 1) else min(2, count - 1) * size
        assert crossing([((root,), size, lanes)]) == pytest.approx(most)
    blocks = [((nodes.node_of[member],), size, nodes.lanes_of(member)) for member in range(len(firsts))]
    members = [len(each) for each in nodes.nodes]
    into = max((count - 1) * each for each in members)
    out_of = max(len(firsts) - each for each in members)
    assert crossing(blocks) == pytest.approx(size * max(into, out_of))


def test_small_sums_take_the_fewest_crossings():
    for needed in [(0, 1, 2), (1,)]:
        [lanes] = cheapest_courses(3, [(needed, 60, range(2))], 1000)
        assert {course.depth for _, course in lanes} == {1} and len(lanes) == 2
