"""The quicker of two ways: found by trying, tried again, and the same for all members."""

import pytest

from spmd_grid.exchange.agreement import quicker_way
from spmd_grid.exchange.agreement.quicker_way import TRIED_AGAIN_AFTER, TRIES, QuickerWay, QuickerWays


class Members:
    """Members whose runs take the nanoseconds that ``costs`` says: one pair per member, for each way."""

    def __init__(self, monkeypatch, costs):
        self.costs, self.now = costs, 1000
        self.ways = [QuickerWay() for _ in costs]
        monkeypatch.setattr(quicker_way, "perf_counter_ns", lambda: self.now)

    def run(self):
        """One run of all members; the way that they took."""
        largest = [max(column) for column in zip(*[ways._least for ways in self.ways], strict=True)]
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


def test_an_end_without_a_try_is_not_noted(monkeypatch):
    members = Members(monkeypatch, [(10, 20)])
    for _ in range(2 * TRIES + 1):
        members.run()
    least = list(members.ways[0]._least)
    members.costs = [(1, 1)]
    members.run()
    members.ways[0].end()
    assert members.ways[0]._least == least == [10, 20]


def test_every_key_has_its_own_tries():
    ways, found = QuickerWays(), []
    for number in range(2 * TRIES):
        found.append([ways.begin(key, max) for key in ("rows to columns", "columns to rows")])
        ways.end()
        assert [ways.begin(("another", number, k), max) for k in range(10)] == [0] * 10
    assert found == [[number % 2] * 2 for number in range(2 * TRIES)]
