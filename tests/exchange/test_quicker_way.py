"""The quicker of two ways: found by trying, tried again, and the same for all members."""

import pytest

from spmd_grid.exchange.agreement import quicker_way
from spmd_grid.exchange.agreement.quicker_way import TRIED_AGAIN_AFTER, TRIES, WATCHED, QuickerWay, QuickerWays
from spmd_grid.kernels.protocol import slots as at


class Members:
    """Members whose runs take the nanoseconds that ``costs`` says: one pair per member, for each way."""

    def __init__(self, monkeypatch, costs):
        self.costs, self.now = costs, 1000
        self.ways = [QuickerWay() for _ in costs]
        monkeypatch.setattr(quicker_way, "perf_counter_ns", lambda: self.now)

    def run(self):
        """One run of all members; the way that they took."""
        largest = [max(column) for column in zip(*[ways._least for ways in self.ways], strict=True)]
        if self.ways[0].words[at.WAYS_RUNS] != 2 * TRIES:  # they watch one way
            largest = largest[self.ways[0].words[at.WAYS_WAY] :]
        taken = []
        for ways, cost in zip(self.ways, self.costs, strict=True):
            answers = iter(largest)
            began, way = self.now, ways.begin(lambda value, answers=answers: next(answers))
            self.now += cost[way]
            ways.end()
            self.now = began
            taken.append(way)
        assert len(set(taken)) == 1
        return taken[0]


@pytest.mark.parametrize("quicker", [0, 1])
def test_takes_the_quicker_one_after_some_tries(monkeypatch, quicker):
    members = Members(monkeypatch, [(20, 10) if quicker else (10, 20)])
    found = [members.run() for _ in range(TRIED_AGAIN_AFTER)]
    assert found[: 2 * TRIES] == [0, 1] * TRIES
    assert set(found[2 * TRIES :]) == {quicker}


def test_the_slowest_member_counts(monkeypatch):
    members = Members(monkeypatch, [(10, 20), (50, 30), (1, 2)])
    assert [members.run() for _ in range(2 * TRIES + 3)][2 * TRIES :] == [1, 1, 1]


def test_tries_again(monkeypatch):
    members = Members(monkeypatch, [(10, 20)])
    first = [members.run() for _ in range(TRIED_AGAIN_AFTER)]
    members.costs = [(20, 10)]
    second = [members.run() for _ in range(TRIED_AGAIN_AFTER)]
    assert (first[-1], second[-1]) == (0, 1) and second[: 2 * TRIES] == first[: 2 * TRIES]


def test_one_run_that_waited_does_not_count(monkeypatch):
    members = Members(monkeypatch, [(10, 20)])
    members.costs = [(1000, 20)]
    members.run(), members.run()
    members.costs = [(10, 20)]
    assert [members.run() for _ in range(2 * TRIES)][2 * TRIES - 2 :] == [0, 0]


@pytest.mark.parametrize("change", [0.5, 2.0])
def test_tries_again_once_times_have_changed(monkeypatch, change):
    members = Members(monkeypatch, [(30, 20), (10, 10)])
    before = [members.run() for _ in range(2 * TRIES + 2 * WATCHED)]
    assert before[2 * TRIES :] == [1] * (2 * WATCHED)
    members.costs = [(30, 20 * change), (10, 10 * change)]
    after = [members.run() for _ in range(WATCHED + 3 * TRIES)]
    assert after[: WATCHED + 1] == [1] * WATCHED + [0] and after[-1] == int(change < 1)


def test_runs_that_waited_now_and_then_change_nothing(monkeypatch):
    members = Members(monkeypatch, [(30, 20), (10, 10)])
    found = []
    for number in range(TRIED_AGAIN_AFTER):
        members.costs = [(30, 20 if number % 5 else 1000), (10, 13 if number % 2 else 10)]
        found.append(members.run())
    assert found[2 * TRIES :] == [1] * (TRIED_AGAIN_AFTER - 2 * TRIES)


def test_every_key_has_its_own_tries():
    ways, found = QuickerWays(), []
    for number in range(2 * TRIES):
        found.append([ways.begin(key, max) for key in ("rows to columns", "columns to rows")])
        ways.end()
        assert [ways.begin(("another", number, k), max) for k in range(10)] == [0] * 10
    assert found == [[number % 2] * 2 for number in range(2 * TRIES)]


def test_a_key_that_was_forgotten_begins_anew():
    """Whether compiled runs hold on to its way or not: all members take the same ones, and those runs go on."""

    def run(ways, key):
        way = ways.begin(key, lambda nanoseconds: 20)  # both ways take as long
        ways.end()
        return way

    members = QuickerWays(), QuickerWays()
    for _ in range(2 * TRIES + 1):
        assert len({run(ways, "rare") for ways in members}) == 1
    held = members[0].find("rare")
    assert held.words[at.WAYS_UNTIL] > held.words[at.WAYS_RUNS] > 0
    for number in range(300):
        assert [run(ways, number) for ways in members] == [0, 0]
    assert members[0].find("rare") is None and held.words[at.WAYS_UNTIL] == 0
    found = [[run(ways, "rare") for _ in range(2 * TRIES)] for ways in members]
    assert found == [[0, 1] * TRIES] * 2 and members[0].find("rare") is held
    run(members[0], "rare")
    assert held.words[at.WAYS_UNTIL] > held.words[at.WAYS_RUNS] > 0
