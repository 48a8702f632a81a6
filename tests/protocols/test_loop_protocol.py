"""Compiled runs of 2 and 3 members on a weak memory: every execution of a few rounds, as the code is and weakened.

Members are in compiled runs, in Python's operations or in others, and all read exactly this round's arrays of all
others, whatever the memory's order: see ``weak_memory``.
"""

from itertools import product

import pytest
from loop_model import LONG, OTHER, READ, RELAYED, SHORT, TOLD, recorded_loops
from support.protocols.weak_memory import DRAIN, RELEASE, WAIT, Machine
from support.protocols.weakenings import READS, RULES, merged, noticed, weakenings, without

ROUNDS = {
    2: [(SHORT, ()), (SHORT, (1,)), (LONG, ()), (LONG, (0,)), (READ, ()), (READ, (1,)), (TOLD, ()), (RELAYED, (0,))],
    3: [(SHORT, ()), (LONG, (2,)), (READ, ()), (READ, (0,)), (RELAYED, ()), (OTHER, (1,))],
}
ROUNDS[2] += [(RELAYED, ()), (OTHER, (0,))]

# What each order and each wait of the code is there for: without it, some process reads what it must not, or accesses a
# word that another one may still access.
NEEDED = {
    ("_post", RELEASE, "weak"): READS,
    ("_meet", WAIT, "weak"): READS,
    ("_meet", WAIT, "left out"): READS,
    ("depart", RELEASE, "weak"): READS,
    ("depart", WAIT, "weak"): RULES,
    ("depart", WAIT, "left out"): READS,
    ("copy_rows", DRAIN, "left out"): READS,
}

# Those of the relay after the meeting, and of members in Python, are in the tests of relays and meetings.
ELSEWHERE = {"_run", "meet", "_collect"}


def alike(size):
    """Three rounds of each kind."""
    return [recorded_loops(size, (each,) * 3) for each in ROUNDS[size]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("patient", [True, False])
@pytest.mark.parametrize("second", ROUNDS[2], ids=str)
@pytest.mark.parametrize("first", ROUNDS[2], ids=str)
def test_two_members_in_all_executions(first, second, patient):
    for rounds in product([first], [second], ROUNDS[2]):
        assert Machine(recorded_loops(2, rounds, patient), races=True).search().violation is None, rounds


@pytest.mark.one_in(5)
@pytest.mark.parametrize("second", ROUNDS[3], ids=str)
@pytest.mark.parametrize("first", ROUNDS[3], ids=str)
def test_three_members_in_all_executions(first, second):
    for rounds in product([first], [second], ROUNDS[3]):
        assert Machine(recorded_loops(3, rounds), races=True).search().violation is None, rounds


def test_one_round_of_two_members_branching_at_every_step():
    for way in (SHORT, LONG, RELAYED):
        assert Machine(recorded_loops(2, ((way, ()),)), races=True).search(every_step=True).violation is None, way


@pytest.mark.parametrize("size", [2, 3])
def test_every_order_and_every_wait_is_needed(size):
    places = [weaker for weaker in weakenings(alike(size)) if weaker[0] not in ELSEWHERE]
    found = {weaker: noticed(alike(size), without(*weaker)) for weaker in places}
    assert found == NEEDED, "the code has other steps than are listed, or some are not needed"


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ["line", "array in line"])
def test_what_exists_twice_is_needed_twice(name, size):
    assert noticed(alike(size), merged(name)) == READS
