"""Exchanges of 2 and 3 neighbours on a weak memory: every execution of three rounds, as the code is and weakened.

All processes read exactly this round's words, cells and refusals of their neighbours, whatever the memory's order (see
``weak_memory``).
"""

from itertools import product

import pytest
from course_model import LENT, REFUSED, STAGED, UNCHANGED, Pair, recorded_rounds
from support.protocols.recorded import reread
from support.protocols.weak_memory import DRAIN, RELEASE, WAIT, Machine
from support.protocols.weakenings import READS, RULES, merged, noticed, weakenings, without

PAIRS = {
    "both ways": (Pair(0, 1), Pair(1, 0)),
    "one way": (Pair(0, 1),),
    "both ways, one staged": (Pair(0, 1, staged=True), Pair(1, 0)),
    "one way, staged": (Pair(0, 1, staged=True),),
    "line": (Pair(0, 1), Pair(1, 0), Pair(1, 2), Pair(2, 1)),
    "ring": (Pair(0, 1), Pair(1, 2), Pair(2, 0)),
    "ring both ways": tuple(Pair(a, b, staged=a + b == 2) for a in range(3) for b in range(3) if a != b),
    "fan": (Pair(0, 1), Pair(0, 2, staged=True), Pair(1, 2)),
}
ROUNDS = {
    2: [(STAGED, STAGED), (LENT, LENT), (LENT, STAGED), (REFUSED, LENT), (STAGED, REFUSED), (UNCHANGED, LENT)],
    3: [(STAGED, STAGED, STAGED), (LENT, LENT, LENT), (LENT, STAGED, REFUSED), (UNCHANGED, LENT, STAGED)],
}

# What each order and each wait of the code is there for.  READS: without it, some process reads what it must not.
# RULES: where a wait only keeps this process from overwriting what others read, processors store after the branch
# that the wait ends with anyway; the language's rules want the acquire.
NEEDED = {
    ("_begin", RELEASE, "weak"): READS,
    ("_begin", WAIT, "weak"): RULES,
    ("_begin", WAIT, "left out"): READS,
    ("_arrive", WAIT, "weak"): READS,
    ("_arrive", WAIT, "left out"): READS,
    ("_leave", RELEASE, "weak"): READS,
    ("_part", WAIT, "weak"): RULES,
    ("_part", WAIT, "left out"): READS,
    ("copy_rows", DRAIN, "left out"): READS,
}


def size_of(pairs):
    return 1 + max(max(pair.source, pair.reader) for pair in PAIRS[pairs])


def alike(*names):
    """Three rounds of each kind."""
    return [recorded_rounds(PAIRS[name], (each,) * 3) for name in names for each in ROUNDS[size_of(name)]]


@pytest.mark.parametrize("pairs", PAIRS)
def test_neighbours_in_all_executions(pairs, request):
    """Of every fifth sequence of three rounds, of all with --full; every kind is in each of the three positions."""
    sequences = list(product(ROUNDS[size_of(pairs)], repeat=3))
    for rounds in sequences if request.config.getoption("full") else sequences[::5]:
        assert Machine(recorded_rounds(PAIRS[pairs], rounds), races=True).search().violation is None, rounds


def test_one_round_branching_at_every_step():
    for pairs in ("both ways, one staged", "one way"):
        programs = recorded_rounds(PAIRS[pairs], ((LENT, LENT),))
        assert Machine(programs, races=True).search(every_step=True).violation is None, pairs


@pytest.mark.parametrize("names", [("both ways", "one way"), ("ring", "line")])
def test_every_order_and_every_wait_is_needed(names):
    scenarios = alike(*names)
    found = {weaker: noticed(scenarios, without(*weaker)) for weaker in weakenings(scenarios)}
    assert found == NEEDED, "the code has other steps than are listed, or some are not needed"


@pytest.mark.parametrize("pairs", ["both ways", "line"])
@pytest.mark.parametrize("name", ["line", "staging"])
def test_what_exists_twice_is_needed_twice(name, pairs):
    assert noticed(alike(pairs), merged(name)) == READS


def test_pokes_read_and_write_nothing_that_others_use():
    """They only tell what their acquire loads see: a process that goes on to read waits first."""
    for pairs in ("both ways", "ring"):
        for rounds in (ROUNDS[size_of(pairs)][:3], ROUNDS[size_of(pairs)][1:4]):
            steps = [recorded_rounds(PAIRS[pairs], tuple(rounds), pokes=pokes) for pokes in (False, True)]
            assert steps[0] == steps[1]


@pytest.mark.parametrize("sleeps", [0, 72])
@pytest.mark.parametrize("look", range(6))
def test_a_wait_ends_with_an_acquire_load(look, sleeps):
    """Wherever in ``wait_for`` the word is seen: in the models, that function is one step."""
    from spmd_grid.kernels.protocol import slots, waits

    state, word, looks = 8, 64, []

    def load(address, slot=0):
        assert address == state, "a word that others write is loaded by a plain load"
        return {slots.POLLS: 1, slots.YIELDS: 1, slots.YIELDS_AGAIN: 0, slots.CARRIER: 0, slots.SLEEPS: sleeps}[slot]

    def load_acquire(address):
        assert address == word
        looks.append(address)
        return 5 if len(looks) > look else 4

    def sleep_until(address, value, longest):
        assert (address, value, longest) == (word, 5, sleeps), "it would sleep past the store"

    given = []
    words = {"load": load, "load_acquire": load_acquire, "pause": lambda: None, "give_way": lambda: given.append(look)}
    words |= {"sleep_until": sleep_until, "look_around": lambda *_: True}
    wait_for = reread(waits, words)["wait_for"]
    assert wait_for(state, word, 5, 0) == slots.FINE
    assert len(looks) == look + 1
    assert len(given) == (look > 1), "it gives way again in further turns"
