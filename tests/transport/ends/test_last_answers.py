"""At its end a process takes the answers to its questions, however late: MPI complains of messages left unread."""

import time

from spmd_grid.transport.mpi.liveness import host_watch
from spmd_grid.transport.mpi.liveness.host_watch import HostWatch


def asked(monkeypatch):
    """The watch of rank 0, which has just asked rank 1 of the other host."""
    monkeypatch.setattr(host_watch, "_ASKED_AFTER", 0.0)
    posted = []
    hosts = {"node0": [0], "node1": [1]}
    watch = HostWatch(0, lambda: "rank 0", hosts, lambda message, other: posted.append(other), print)
    watch.look(True, lambda: "the end of the program")
    assert posted == [1]
    return watch


def test_a_late_answer_is_taken(monkeypatch):
    watch, began, answers = asked(monkeypatch), time.monotonic(), []

    def collect():
        if time.monotonic() - began > 0.6 and not answers:
            answers.append(watch.answered())

    watch.take_last_answers(collect)
    assert len(answers) == 1
    assert time.monotonic() - began < 1.9  # it does not wait for more


def test_a_host_that_died_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(host_watch, "_LAST_ANSWERS_SECONDS", 0.1)
    watch, began, calls = asked(monkeypatch), time.monotonic(), []
    watch.take_last_answers(lambda: calls.append(None))
    assert calls and time.monotonic() - began >= 0.1
