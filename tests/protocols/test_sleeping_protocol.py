"""Sleeps and wake-ups of processes that share a core, in all executions on a memory that delays stores.

``sleep_until`` and ``wake`` are those of the package, run by the interpreter.  What a process stores or adds is seen by
others some time later, in order; a fence and the calls of the system wait for that.  A sleep ends only by a wake-up.
"""

from functools import cache

import pytest
from support.protocols.recorded import reread

from spmd_grid.kernels.protocol import sleeping, slots

WORD, STATE, LONGEST = 64, 8, 72
COUNT = WORD + slots.SLEEPERS


class Reached(Exception):
    """The next step of a process: its kind, then its arguments."""


class Process:
    """A process that does what ``live`` says with the words of ``sleeping``; its state is what its steps have given."""

    def __init__(self, live, has_fence=True):
        self._given = iter(())
        names = "add", "load_acquire", "store_release", "sleep_on", "wake_all"
        words = {name: lambda *args, name=name: self._step(name, *args) for name in names}
        words["fence"] = (lambda: self._step("fence")) if has_fence else (lambda: None)
        words["load"] = lambda state, slot: LONGEST  # whether waits sleep
        self._words, self._live = {**words, **reread(sleeping, words)}, live
        self.next_step = cache(self._next_step)  # many states differ in what other processes have done

    def _step(self, *step):
        for given in self._given:
            return given
        raise Reached(*step)

    def _next_step(self, history):
        """Return the step after those that have given ``history``; None at its end."""
        self._given = iter(history)
        try:
            self._live(self._words)
        except Reached as reached:
            return reached.args
        return None


def wait_for_both(words):
    for value in (1, 2):
        while words["load_acquire"](WORD) < value:
            words["sleep_until"](WORD, value, LONGEST)


def post_both(words):
    for value in (1, 2):
        words["store_release"](WORD, value)
        words["wake"](STATE, WORD)


def executions(waiters=1, has_fence=True):
    """The ends of all executions: whether each process came to its end, the words, and how often one was woken."""
    processes = [Process(wait_for_both) for _ in range(waiters)] + [Process(post_both, has_fence)]
    nothing = ((),) * len(processes)
    left, seen, ends = [(nothing, nothing, (0, 0), frozenset(), 0)], set(), set()
    while left:
        state = sorted_waiters(left.pop(), waiters)
        if state in seen:
            continue
        seen.add(state)
        histories, delayed, memory, asleep, woken = state
        found = []
        for p, process in enumerate(processes):
            if delayed[p]:
                first, *rest = delayed[p]
                found.append((histories, put(delayed, p, tuple(rest)), seen_by_all(memory, first), asleep, woken))
            step = None if p in asleep else process.next_step(histories[p])
            if step is not None:
                found += after(state, p, *step)
        if not found:
            ends.add((not asleep, memory, woken))
        left += found
    return ends


def sorted_waiters(state, waiters):
    """The same state for all orders of the waiters, which are alike."""
    histories, delayed, memory, asleep, woken = state
    order = sorted(range(waiters), key=lambda p: hash((histories[p], delayed[p], p in asleep)))
    if order == list(range(waiters)):
        return state
    order += range(waiters, len(histories))
    asleep = frozenset(place for place, p in enumerate(order) if p in asleep)
    return tuple(histories[p] for p in order), tuple(delayed[p] for p in order), memory, asleep, woken


def after(state, p, kind, *args):
    """The states after a step; none while it cannot be made."""
    histories, delayed, memory, asleep, woken = state
    if kind in ("fence", "sleep_on", "wake_all") and delayed[p]:
        return []
    given = None
    if kind in ("store_release", "add"):
        delayed = put(delayed, p, (*delayed[p], (kind, *args)))
    elif kind == "load_acquire":
        for own in delayed[p]:
            memory = seen_by_all(memory, own)
        given, memory = memory[args[0] == COUNT], state[2]
    elif kind == "sleep_on" and memory[0] == args[1]:
        asleep |= {p}
    elif kind == "wake_all":
        asleep, woken = frozenset(), woken + bool(asleep)
    return [(put(histories, p, (*histories[p], given)), delayed, memory, asleep, woken)]


def seen_by_all(memory, write):
    _, address, value = write
    word, count = memory
    if address == COUNT:
        return word, count + value
    return value, count


def put(items, p, item):
    return (*items[:p], item, *items[p + 1 :])


@pytest.mark.parametrize("waiters", [1, 2])
def test_no_wake_up_is_lost(waiters):
    ends = executions(waiters)
    assert {(all_awake, memory) for all_awake, memory, _ in ends} == {(True, (2, 0))}
    assert {woken for *_, woken in ends} == {0, 1, 2}  # some slept, and some did not


def test_the_fence_is_needed():
    assert not all(all_awake for all_awake, *_ in executions(has_fence=False))


def test_nobody_is_woken_where_nobody_sleeps():
    """A call of the system costs more than a small operation's own part."""

    def post_alone(words):
        words["store_release"](WORD, 1)
        words["wake"](STATE, WORD)

    process = Process(post_alone)
    assert process.next_step((None, None, 0)) is None
    assert process.next_step((None, None, 1)) == ("wake_all", WORD)
