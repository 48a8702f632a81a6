"""Members measure their distance by words and by trials, and all find the same, whatever each of them times."""

from threading import Barrier, Thread

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.transfer import distance
from spmd_grid.exchange.transfer.distance import SLOW_WORD, Distance
from spmd_grid.kernels.protocol import slots as at

QUICK, SLOW = SLOW_WORD / 2, 2 * SLOW_WORD
IN_PLACE, CACHED, STREAMED = (5, 6, 8), (13, 6, 9), (13, 6, 7)  # by the way that is the quickest


class Members:
    """Members that measure what ``words`` and ``ways`` say, each in a thread of its own."""

    def __init__(self, monkeypatch, n):
        self.now, self.trials, self.words, self.ways = 0.0, 0, [QUICK] * n, [IN_PLACE] * n
        monkeypatch.setattr(distance, "perf_counter", lambda: self.now)
        self._brought, self._barrier = [0] * n, Barrier(n)
        self._distances = [Distance(lambda _, value, i=i: self._roll(i, value), n) for i in range(n)]
        for i, each in enumerate(self._distances):
            each._time_words = lambda i=i: self.words[i] + (n - 2) * distance._FURTHER_WORD
            each._time_ways = lambda mine, theirs, i=i: self._try(i)

    def ask(self, memory=1):
        """Whether all have found that they are far apart, late, and stream."""
        threads = [Thread(target=each.ask, args=(memory, memory)) for each in self._distances]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        [found] = {(each.is_far, each.is_late, each.streams) for each in self._distances}
        return found

    def _roll(self, member, value):
        self._brought[member] = value
        self._barrier.wait(20)
        found = max(self._brought)
        self._barrier.wait(20)
        return found

    def _try(self, member):
        self.trials += member == 0
        return self.ways[member]


@pytest.mark.parametrize("n", [2, 3, 16])
def test_a_quick_word_is_enough(monkeypatch, n):
    members = Members(monkeypatch, n)
    assert members.ask() == (False, False, False) and members.trials == 0


@pytest.mark.parametrize("n", [2, 3])
def test_one_slow_word_counts_and_one_slow_member(monkeypatch, n):
    members = Members(monkeypatch, n)
    members.words[-1] = SLOW
    assert members.ask(memory=0) == (True, False, True)  # nothing but the word is known
    expected = {IN_PLACE: (False, True, False), CACHED: (True, False, False), STREAMED: (True, False, True)}
    for ways, found in expected.items():
        members.now += 1.0
        members.ways = [ways, *[tuple(value - 1 for value in ways)] * (n - 1)]
        assert members.ask() == found
    assert members.trials == len(expected)


def test_trials_are_rare(monkeypatch):
    """Trials take at most one part in two hundred of the time; a finding holds until the next trial."""
    members = Members(monkeypatch, 2)
    members.words = [SLOW, SLOW]

    def takes_a_while(member):
        members._barrier.wait(20)
        members.now += 0.5e-3 * (member == 0)
        members.trials += member == 0
        members._barrier.wait(20)
        return STREAMED

    members._try = takes_a_while
    for number in range(1000):
        members.words[0] = (SLOW, QUICK)[number % 3 == 0]
        members.words[1] = (SLOW, QUICK)[number % 2]
        found = members.ask()
        assert found == ((False, False, False) if members.words == [QUICK, QUICK] else (True, False, True))
        members.now += 1e-3
    assert 0.8 * members.now < members.trials * 0.5e-3 * 200 < members.now + 0.1


def in_turns(monkeypatch):
    """Every trial finds something else: results are right, and all members choose alike."""
    grid = sg.init_grid((-1,))
    n, me = grid.size, grid.rank
    sg.all_reduce(np.ones(1), grid, [0])
    meeting, shape = meeting_of(grid.group((0,))), (70, 40)
    rng = np.random.default_rng(me)
    if isinstance(meeting, MemoryMeeting):
        found = meeting._distance
        monkeypatch.setattr(found, "_time_words", lambda: float(rng.choice([QUICK, SLOW])))
        monkeypatch.setattr(found, "_time_ways", lambda *_: list(rng.permutation([10, 20, 30])))
    with sg.all_gather.plan(grid, shape, "f8", [0], 0) as plan, sg.shift.plan(grid, shape, "f8", [0], 0, 1, True) as to:
        x, out, part = grid.allocate(shape, "f8"), np.empty((n * shape[0], shape[1])), np.empty(shape)
        for k in range(5 * at.RELAYS_ASK):
            x[...] = me + k
            plan.run(x, out)
            assert (out.reshape(n, -1) == k + np.arange(n)[:, None]).all()
            assert (to.run(x, part) == (me - 1) % n + k).all()
            if isinstance(meeting, MemoryMeeting):
                found._due = 0.0 if k % 3 else found._due
                words = meeting.is_far, meeting.is_late, meeting.streams
                assert words[::2] == (bool(meeting.state[at.IS_FAR]), bool(meeting.state[at.STREAMS]))
    mine = np.array([meeting.is_far, meeting.is_late, meeting.streams])
    assert (sg.all_gather(mine[None], grid, [0], 0) == mine).all()


@pytest.mark.parametrize("n", [2, 3, 4])
def test_members_that_measure_something_else_each_time(spmd, monkeypatch, n):
    spmd(n, in_turns, monkeypatch)
