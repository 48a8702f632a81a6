"""Meetings of 2 and 3 members on a weak memory: every execution of three rounds, as the code is and with it weakened.

All members read exactly this round's frames and arrays of all others, whatever the memory's order: see
``weak_memory``.
"""

from itertools import product

import pytest
from meeting_model import LENT, LINE, NOTHING, ROOM, recorded_rounds
from support.protocols.weak_memory import DRAIN, RELEASE, WAIT, Machine
from support.protocols.weakenings import READS, merged, noticed, weakenings, without

ROUNDS = {
    2: [
        ("swap", (LENT, LENT)),
        ("swap", (LENT, LINE)),
        ("swap", (ROOM, NOTHING)),
        ("reduce",),
        ("reduce", 0),
        ("roll", 1),
        ("roll", 2),
    ],
    3: [("swap", (LENT, LENT, LENT)), ("swap", (LINE, LENT, ROOM)), ("reduce",), ("reduce", 1), ("roll", 1)],
}

# What each order and each wait of the code is there for: without it, some process reads what it must not.
NEEDED = {
    ("meet", RELEASE, "weak"),
    ("_collect", WAIT, "weak"),
    ("_collect", WAIT, "left out"),
    ("depart", RELEASE, "weak"),
    ("depart", WAIT, "weak"),
    ("depart", WAIT, "left out"),
    ("call_roll", RELEASE, "weak"),
    ("call_roll", WAIT, "weak"),
    ("call_roll", WAIT, "left out"),
    ("copy_rows", DRAIN, "left out"),
    ("fold", DRAIN, "left out"),
}


def alike(size):
    """Three rounds of each kind."""
    return [recorded_rounds(size, (each,) * 3) for each in ROUNDS[size]]


@pytest.mark.parametrize("first", range(7))
def test_two_members_in_all_executions(first):
    for rounds in product(ROUNDS[2][first : first + 1], ROUNDS[2], ROUNDS[2]):
        assert Machine(recorded_rounds(2, rounds), races=True).search().violation is None, rounds


@pytest.mark.parametrize("first", range(5))
def test_three_members_in_all_executions(first):
    for rounds in product(ROUNDS[3][first : first + 1], ROUNDS[3], ROUNDS[3]):
        assert Machine(recorded_rounds(3, rounds), races=True).search().violation is None, rounds


def test_one_round_of_two_members_branching_at_every_step():
    for each in (("swap", (LINE, NOTHING)), ("roll", 2)):
        assert Machine(recorded_rounds(2, (each,)), races=True).search(every_step=True).violation is None, each


@pytest.mark.parametrize("size", [2, 3])
def test_every_order_and_every_wait_is_needed(size):
    found = {weaker: noticed(alike(size), without(*weaker)) for weaker in weakenings(alike(size))}
    assert found == dict.fromkeys(NEEDED, READS), "the code has other steps than are listed, or some are not needed"


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ["line", "array in line", "room", "brought"])
def test_what_exists_twice_is_needed_twice(name, size):
    assert noticed(alike(size), merged(name)) == READS


@pytest.mark.parametrize("size", [2, 3])
def test_a_reduction_by_memory_departs_once_its_slices_are_spread(size):
    """Nobody else makes sure that the others have read this member's slice before its result is used again."""
    programs = recorded_rounds(size, (("reduce",),) * 3)
    programs = [[step for step in program if not step.site.startswith("depart:")] for program in programs]
    assert "result" in Machine(programs).search().violation
