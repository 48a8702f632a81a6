"""The weak memory itself: what it lets happen and what not, and that leaving out branches loses no violation."""

from random import Random

import pytest
from support.protocols.weak_memory import DRAIN, LOAD, RELEASE, STORE, STREAM, WAIT, Machine, Step, weakened


def violation(*programs, races=False):
    """The finding of both searches, which must agree."""
    found = [Machine(programs, races=races).search(every_step).violation for every_step in (False, True)]
    assert (found[0] is None) == (found[1] is None), found
    return found[0]


def store(place, value=1):
    return Step(STORE, place, value)


def load(place, value=1):
    return Step(LOAD, place, value)


def release(place, value=1, weak=False):
    return Step(RELEASE, place, value, weak=weak)


def wait(place, value=1, weak=False):
    return Step(WAIT, place, value, weak=weak)


def test_what_was_stored_before_a_release_is_seen_after_an_acquire():
    assert violation([store("x"), release("go")], [wait("go"), load("x")]) is None


def test_stores_overtake_one_another_without_a_release():
    assert "x is read as 0, not 1" in violation([store("x"), release("go", weak=True)], [wait("go"), load("x")])


def test_loads_overtake_one_another_without_an_acquire():
    assert "x is read as 0, not 1" in violation([store("x"), release("go")], [wait("go", weak=True), load("x")])


def test_what_was_loaded_before_a_release_is_not_changed_by_who_saw_it():
    assert violation([load("x", 0), release("go")], [wait("go"), store("x")]) is None


def test_a_store_overtakes_a_load_without_a_release():
    assert "x is read as 1, not 0" in violation([load("x", 0), release("go", weak=True)], [wait("go"), store("x")])


def test_a_streaming_store_is_overtaken_by_a_release_unless_drained():
    reader = [wait("go"), load("x")]
    assert "x is read as 0, not 1" in violation([Step(STREAM, "x", 1), release("go")], reader)
    assert violation([Step(STREAM, "x", 1), Step(DRAIN), release("go")], reader) is None
    late = [Step(STREAM, "x", 1), release("go"), Step(DRAIN), release("go", 2)]
    assert violation(late, [wait("go", 2), load("x")]) is None


def test_what_one_has_seen_is_passed_on_by_releases_and_acquires_alone():
    first, last = [store("x"), release("a")], [wait("b"), load("x")]
    assert violation(first, [wait("a"), release("b")], last) is None
    assert "x is read as 0, not 1" in violation(first, [wait("a", weak=True), release("b")], last)


def test_a_process_sees_its_own_stores_and_goes_back_at_no_place():
    assert violation([store("x", 1), load("x", 1), store("x", 2), load("x", 2)], [store("y")]) is None
    second = [wait("go", 2), load("x", 2), load("x", 2)]
    assert violation([store("x", 1), release("go", 1), store("x", 2), release("go", 2)], second) is None


def test_who_overwrites_early_is_noticed():
    writer = [store("x", 1), release("go"), store("x", 2)]
    assert "x is read as 2, not 1" in violation(writer, [wait("go"), load("x", 1)])


def test_processes_that_all_wait_are_noticed():
    assert "stuck" in violation([wait("a"), release("b")], [wait("b"), release("a")])


def test_two_that_store_to_one_place_are_noticed():
    assert "two processes" in violation([store("x", 1)], [store("x", 2)])
    assert violation([store("x", 1), release("go")], [wait("go"), store("x", 2)]) is None


def test_a_control_dependency_orders_what_is_stored_but_not_by_the_rules():
    """A store after a wait that does not acquire comes late enough; but nothing says so to a compiler."""
    programs = [load("x", 0), release("go")], [wait("go", weak=True), store("x")]
    assert violation(*programs) is None
    assert "x is overwritten while process 0 may still read it" in violation(*programs, races=True)


@pytest.mark.parametrize("size", [2, 3])
def test_leaving_out_branches_loses_no_violation(size):
    """Programs made up at random, as they are and with a step weakened: both searches agree."""
    told = {True: 0, False: 0}
    for seed in range({2: 500, 3: 100}[size]):
        random = Random(seed)
        programs = made_up(random, size, {2: 6, 3: 4}[size])
        sites = [(s.site, s.kind) for program in programs for s in program if s.kind in (RELEASE, WAIT, DRAIN)]
        if sites and seed % 3:
            site, kind = random.choice(sites)
            how = "left out" if kind == DRAIN or (seed % 3 == 2 and kind == WAIT) else "weak"
            programs = [weakened(program, site, kind, how) for program in programs]
        told[violation(*programs) is None] += 1
    assert min(told.values()) > 20, "the programs are all alike"


def made_up(random: Random, size: int, length: int) -> list[list[Step]]:
    """Programs of stores, loads, releases and waits, in one order of which all loads read what they must."""
    programs, memory, count = [[] for _ in range(size)], {}, 0
    while sum(map(len, programs)) < size * length:
        p = random.randrange(size)
        count += 1
        kind = random.choice((STORE, STREAM, DRAIN, RELEASE, RELEASE, WAIT, WAIT, LOAD, LOAD))
        owner = p if kind in (STORE, STREAM, RELEASE) else random.randrange(size)
        place = f"word {owner}" if kind in (RELEASE, WAIT) else f"x{owner}{random.randrange(2)}"
        if kind in (STORE, STREAM, RELEASE):
            memory[place] = count
        if kind != WAIT or memory.get(place):
            value = 0 if kind == DRAIN else memory.get(place, 0)
            programs[p].append(Step(kind, None if kind == DRAIN else place, value, f"step {count}"))
    return programs
