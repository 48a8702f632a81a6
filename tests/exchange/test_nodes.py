"""Maps of nodes, and the courses of folds over them, against all courses there are."""

from itertools import product

import pytest

from spmd_grid.exchange.nodes.fold_course import fold_course
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
        for turn in range(3):
            course = fold_course(node_of, needed, False, turn)
            assert [member for visit in course.visits for member in visit.members] == list(range(len(node_of)))
            assert course.crossings(node_of) == fewest_crossings(node_of, needed, range(len(node_of)))
            exact = fold_course(node_of, needed, True, turn)
            assert sorted(member for visit in exact.visits for member in visit.members) == list(range(len(node_of)))
            assert exact.crossings(node_of) == len(nodes) - 1 + len(needed) - 1
            for each in (course, exact):
                assert {each.visits[-1].node, *each.spread} >= set(needed)


def test_courses_take_turns():
    ends = {fold_course((0, 0, 1, 1), (0, 1), True, turn).visits[-1].node for turn in range(2)}
    assert ends == {0, 1}
