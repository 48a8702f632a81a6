"""At its end a process takes the answers to its questions, however late: MPI complains of messages left unread."""

import pytest

from spmd_grid.transport.mpi.liveness import host_watch
from spmd_grid.transport.mpi.liveness.host_watch import HostWatch


class Clock:
    """A clock that sleeps move, and nothing else."""

    now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(host_watch, "time", clock)
    return clock


@pytest.fixture
def watch(clock):
    """The watch of rank 0, which has just asked rank 1 of the other host."""
    posted = []
    hosts = {"node0": [0], "node1": [1]}
    watch = HostWatch(0, lambda: "rank 0", hosts, lambda message, other: posted.append(other), print)
    watch.look(True, lambda: "the end of the program")
    assert not posted
    clock.sleep(25)
    watch.look(True, lambda: "the end of the program")
    assert posted == [1]
    return watch


@pytest.mark.parametrize("late", [0.0, 0.3, 1.5])
def test_a_late_answer_is_taken(clock, watch, late):
    comes, answers = clock.now + late, []

    def collect():
        if clock.now >= comes and not answers:
            answers.append(watch.answered())

    watch.take_last_answers(collect)
    assert len(answers) == 1
    assert clock.now < comes + 0.1, "it does not wait for more"


def test_a_host_that_died_is_not_waited_for_long(clock, watch):
    began, calls = clock.now, []
    watch.take_last_answers(lambda: calls.append(None))
    assert calls and 1.9 < clock.now - began < 2.1
