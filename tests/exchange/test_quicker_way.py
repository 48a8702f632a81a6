"""The quicker of two ways: found by trying, tried again, and the same for all members."""

import pytest

from spmd_grid.exchange.agreement import quicker_way
from spmd_grid.exchange.agreement.quicker_way import (
    IN_A_ROW,
    TRIED,
    TRIED_AGAIN_AFTER,
    WATCHED,
    QuickerWay,
    QuickerWays,
)
from spmd_grid.kernels.protocol import slots as at

BY_TURNS = [number // IN_A_ROW for number in range(TRIED)]


class Members:
    """Members whose runs take the nanoseconds that ``costs`` says: one pair per member, for each way.

    All begin at a time: ``writes`` nanoseconds, for each way, after the last one's end.
    """

    def __init__(self, monkeypatch, costs, writes=(0, 0)):
        self.costs, self.writes, self.now = costs, writes, 1000
        self.ways = [QuickerWay() for _ in costs]
        monkeypatch.setattr(quicker_way, "perf_counter_ns", lambda: self.now)

    def run(self):
        """One run of all members; the way that they took."""
        largest = [max(column) for column in zip(*[(*ways._least, *ways._between) for ways in self.ways], strict=True)]
        if self.ways[0].words[at.WAYS_RUNS] != TRIED:  # they watch one way
            largest = largest[self.ways[0].words[at.WAYS_WAY] :]
        taken, began = [], self.now
        for ways, cost in zip(self.ways, self.costs, strict=True):
            answers = iter(largest)
            self.now = began
            way = ways.begin(lambda value, answers=answers: next(answers))
            self.now += cost[way]
            ways.end()
            taken.append(way)
        assert len(set(taken)) == 1
        self.now = began + max(cost[taken[0]] for cost in self.costs) + self.writes[taken[0]]
        return taken[0]


@pytest.mark.parametrize("quicker", [0, 1])
def test_takes_the_quicker_one_after_some_tries(monkeypatch, quicker):
    members = Members(monkeypatch, [(20, 10) if quicker else (10, 20)])
    found = [members.run() for _ in range(TRIED_AGAIN_AFTER)]
    assert found[:TRIED] == BY_TURNS
    assert set(found[TRIED:]) == {quicker}


def test_the_slowest_member_counts(monkeypatch):
    members = Members(monkeypatch, [(10, 20), (50, 30), (1, 2)])
    assert [members.run() for _ in range(TRIED + 3)][TRIED:] == [1, 1, 1]


@pytest.mark.parametrize(("writes", "quicker"), [((5, 20), 0), ((20, 20), 1), ((10**9, 10**9 + 10**6), 1)])
def test_what_follows_a_run_counts(monkeypatch, writes, quicker):
    """Arrays take longer to write again after one way than after the other; but how long programs compute varies."""
    members = Members(monkeypatch, [(100, 90)], writes)
    assert [members.run() for _ in range(TRIED + 3)][TRIED:] == [quicker] * 3


def test_what_follows_runs_of_large_arrays_does_not_count(monkeypatch):
    members = Members(monkeypatch, [(100, 90)], (5, 20))
    begin = QuickerWay.begin
    monkeypatch.setattr(QuickerWay, "begin", lambda self, most: begin(self, most, False))
    assert [members.run() for _ in range(TRIED + 3)][TRIED:] == [1] * 3


def test_long_times_between_runs_do_not_count(monkeypatch):
    """A program that computes between runs by one way, and not between those by the other: by chance."""
    for often in range(2):
        members, found = Members(monkeypatch, [(100, 90)]), []
        for number in range(TRIED + 1):
            members.writes = [10**6 * (number // IN_A_ROW == often)] * 2
            found.append(members.run())
        assert found[-1] == 1


def test_what_other_keys_take_in_between_does_not_count(monkeypatch):
    """Two operations by turns, tried at the same time: each finds what is quicker for itself."""
    now, ways, taken = [0], QuickerWays(), {"slow": [], "quick": []}
    monkeypatch.setattr(quicker_way, "perf_counter_ns", lambda: now[0])
    costs = {"slow": (1000, 2000), "quick": (30, 20)}
    for _ in range(TRIED + 2):
        for key, cost in costs.items():
            taken[key].append(ways.begin(key, lambda value: value))
            now[0] += cost[taken[key][-1]]
            ways.end()
            now[0] += 7
    assert taken == {"slow": [*BY_TURNS, 0, 0], "quick": [*BY_TURNS, 1, 1]}


def test_tries_again(monkeypatch):
    members = Members(monkeypatch, [(10, 20)])
    first = [members.run() for _ in range(TRIED_AGAIN_AFTER)]
    members.costs = [(20, 10)]
    second = [members.run() for _ in range(TRIED_AGAIN_AFTER)]
    assert (first[-1], second[-1]) == (0, 1) and second[:TRIED] == first[:TRIED]


def test_one_run_that_waited_does_not_count(monkeypatch):
    members = Members(monkeypatch, [(10, 20)])
    members.costs = [(1000, 20)]
    members.run(), members.run()
    members.costs = [(10, 20)]
    assert [members.run() for _ in range(TRIED)][TRIED - 2 :] == [0, 0]


@pytest.mark.parametrize("change", [0.5, 2.0])
def test_tries_again_once_times_have_changed(monkeypatch, change):
    members = Members(monkeypatch, [(30, 20), (10, 10)])
    before = [members.run() for _ in range(TRIED + 2 * WATCHED)]
    assert before[TRIED:] == [1] * (2 * WATCHED)
    members.costs = [(30, 20 * change), (10, 10 * change)]
    after = [members.run() for _ in range(WATCHED + 2 * TRIED)]
    assert after[: WATCHED + 1] == [1] * WATCHED + [0] and after[-1] == int(change < 1)


def test_runs_that_waited_now_and_then_change_nothing(monkeypatch):
    members = Members(monkeypatch, [(30, 20), (10, 10)])
    found = []
    for number in range(TRIED_AGAIN_AFTER):
        members.costs = [(30, 20 if number % 5 else 1000), (10, 13 if number % 2 else 10)]
        found.append(members.run())
    assert found[TRIED:] == [1] * (TRIED_AGAIN_AFTER - TRIED)


def test_every_key_has_its_own_tries():
    ways, found = QuickerWays(), []
    for number in range(TRIED):
        found.append([ways.begin(key, max) for key in ("rows to columns", "columns to rows")])
        ways.end()
        assert [ways.begin(("another", number, k), max) for k in range(10)] == [0] * 10
    assert found == [[way] * 2 for way in BY_TURNS]


def test_a_key_that_was_forgotten_begins_anew():
    """Whether compiled runs hold on to its way or not: all members take the same ones, and those runs go on."""

    def run(ways, key):
        way = ways.begin(key, lambda nanoseconds: 20)  # both ways take as long
        ways.end()
        return way

    members = QuickerWays(), QuickerWays()
    for _ in range(TRIED + 1):
        assert len({run(ways, "rare") for ways in members}) == 1
    held = members[0].find("rare")
    assert held.words[at.WAYS_UNTIL] > held.words[at.WAYS_RUNS] > 0
    for number in range(300):
        assert [run(ways, number) for ways in members] == [0, 0]
    assert members[0].find("rare") is None and held.words[at.WAYS_UNTIL] == 0
    found = [[run(ways, "rare") for _ in range(TRIED)] for ways in members]
    assert found == [BY_TURNS] * 2 and members[0].find("rare") is held
    run(members[0], "rare")
    assert held.words[at.WAYS_UNTIL] > held.words[at.WAYS_RUNS] > 0
