"""Ranks that share a core sleep between polls, unless others have had the core while they gave way."""

from types import SimpleNamespace

import pytest

from spmd_grid.transport.mpi import communicator
from spmd_grid.transport.mpi.communicator import MpiCommunicator


class Clock:
    """A clock that sleeps and yields move; each yield takes ``of_yield`` seconds."""

    def __init__(self, of_yield):
        self.now, self.of_yield, self.yields, self.naps = 0.0, of_yield, 0, []

    def perf_counter(self):
        self.now += 1e-6
        return self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds

    def sched_yield(self):
        self.yields += 1
        self.now += self.of_yield


def waited(clock, monkeypatch, polls, shares_memory):
    """The ``clock`` after a wait of a rank that shares its core, which ends at the poll number ``polls``."""
    monkeypatch.setattr(communicator, "time", clock)
    monkeypatch.setattr(communicator.os, "sched_yield", clock.sched_yield)
    seen = []

    def test():
        seen.append(clock.now)
        return len(seen) == polls

    process = SimpleNamespace(progress=lambda: None)
    rank = SimpleNamespace(process=process, _lifeline=None, _polite=True, shares_memory=shares_memory)
    MpiCommunicator._poll(rank, test)
    return clock


@pytest.mark.parametrize("of_yield", [1e-6, 1e-3])
def test_waits_within_a_node_sleep_between_polls(of_yield, monkeypatch):
    clock = waited(Clock(of_yield), monkeypatch, 11, shares_memory=True)
    assert clock.yields == 0 and len(clock.naps) == 10


def test_waits_for_another_node_give_way_before_naps(monkeypatch):
    clock = waited(Clock(1e-7), monkeypatch, 5 * 200, shares_memory=False)
    assert clock.yields == 4 * 200 and len(clock.naps) > 150 and max(clock.naps) == pytest.approx(1e-4)


def test_naps_are_left_out_where_others_have_had_the_core(monkeypatch):
    clock = waited(Clock(1e-3), monkeypatch, 5 * 20, shares_memory=False)
    assert clock.yields == 4 * 20 and not clock.naps


def test_a_poll_that_finds_nothing_gives_way_and_does_not_sleep(monkeypatch):
    clock = Clock(1e-6)
    monkeypatch.setattr(communicator, "time", clock)
    monkeypatch.setattr(communicator.os, "sched_yield", clock.sched_yield)
    for polite in (True, False):
        MpiCommunicator.give_way(SimpleNamespace(_polite=polite))
    assert clock.yields == 1 and not clock.naps
