"""Maps of nodes, and the courses of folds over them, against all courses there are."""

from collections import Counter
from itertools import product

import pytest

from spmd_grid.exchange.nodes.fold_course import balanced_courses, fold_courses
from spmd_grid.exchange.nodes.node_map import NodeMap

PLACES = [(0, 0, 1, 1), (0, 1, 0, 1), (0, 0, 0, 1), (0, 0, 1, 1, 2, 2), (0, 1, 2, 0, 1), (0, 1, 1, 0), (0, 1, 2)]


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


def fewest_crossings(node_of, needed, order):
    """The crossings of the best of all courses: the fold may be on any node as it takes in each member's array."""
    nodes = sorted(set(node_of))
    found = []
    for places in product(nodes, repeat=len(order)):
        moves = sum(a != b for a, b in zip(places, places[1:]))
        brought = sum(place != node_of[member] for place, member in zip(places, order, strict=True))
        found.append(moves + brought + len(set(needed) - {places[-1]}))
    return min(found)


@pytest.mark.parametrize("node_of", PLACES)
def test_courses_keep_the_order_and_cross_least(node_of):
    nodes = sorted(set(node_of))
    for needed in [tuple(nodes), *[(node,) for node in nodes]]:
        for course in fold_courses(node_of, needed, False):
            assert [member for visit in course.visits for member in visit.members] == list(range(len(node_of)))
            assert course.crossings(node_of) == fewest_crossings(node_of, needed, range(len(node_of)))
            assert {course.visits[-1].node, *course.spread} >= set(needed)
        for exact in fold_courses(node_of, needed, True):
            assert sorted(member for visit in exact.visits for member in visit.members) == list(range(len(node_of)))
            assert exact.crossings(node_of) == len(nodes) - 1 + len(needed) - 1
            assert {exact.visits[-1].node, *exact.spread} >= set(needed)


def fullest(courses, parts, node_of):
    loads = Counter()
    for lanes, (_, size) in zip(courses, parts, strict=True):
        for course in lanes:
            for way, n in course.ways(node_of).items():
                loads[way] += n * size
    return max(loads.values())


def test_lanes_share_the_ways_between_nodes():
    two_by_two = (0, 0, 1, 1)
    scattered = [((0,), 1), ((0,), 1), ((1,), 1), ((1,), 1)]
    courses = balanced_courses(two_by_two, scattered, False, 2)
    assert fullest(courses, scattered, two_by_two) == 6  # and 8 if all that goes back had come as a sum
    for needed in ((0,), (1,), (0, 1)):
        parts = [(needed, 3)]
        assert fullest(balanced_courses(two_by_two, parts, False, 2), parts, two_by_two) == 6
    [lanes] = balanced_courses(two_by_two, [((0, 1), 1)], True, 2)
    assert {course.visits[-1].node for course in lanes} == {0, 1}
