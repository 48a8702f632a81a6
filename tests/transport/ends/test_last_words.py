"""The choice of the process that says why a job ends: one of many, after all that was printed before."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from support.jobs import of_mpi


def test_one_of_many_speaks(capfd):
    word, ended = np.zeros(1, np.int64), []
    speakers = [of_mpi("liveness.exit_report").ExitReport(rank, word, True, ended.append) for rank in range(6)]
    threads = [threading.Thread(target=each.say, args=("the end", 7)) for each in speakers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capfd.readouterr().err == "spmd_grid: the end\n" and ended == 6 * [7]


class SlowWord:
    """A word that two processes find empty; the second writes to it when the first pauses, or is through already."""

    def __init__(self):
        self._value, self._both_read = 0, threading.Barrier(2)
        self.may_write, self.written = threading.Event(), threading.Event()

    def __getitem__(self, _):
        value = self._value
        if not value:
            self._both_read.wait(10)
        return value

    def __setitem__(self, _, mark):
        if mark == 2:
            assert self.may_write.wait(10)
        self._value = mark
        if mark == 2:
            self.written.set()


def test_two_that_find_the_word_empty(capfd, monkeypatch):
    """The first has written, the second is about to: the pause lets it, so that one of them speaks."""
    last_words, word, ended = of_mpi("liveness.exit_report"), SlowWord(), []

    def pause(seconds):
        word.may_write.set()
        assert word.written.wait(10)

    def end(code):
        ended.append(code)
        word.may_write.set()

    monkeypatch.setattr(last_words, "time", SimpleNamespace(sleep=pause))
    speakers = [last_words.ExitReport(rank, word, True, end) for rank in range(2)]
    threads = [threading.Thread(target=each.say, args=(f"from rank {rank}",)) for rank, each in enumerate(speakers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capfd.readouterr().err == "spmd_grid: from rank 1\n" and ended == [1, 1]


def test_the_one_that_was_cut_off_speaks_first(capfd, monkeypatch):
    last_words, word, ended = of_mpi("liveness.exit_report"), np.zeros(1), []
    first, told = (last_words.ExitReport(rank, word, True, ended.append) for rank in range(2))
    meanwhile = iter([lambda: first.insist("interrupted"), *[lambda: None] * 9])
    monkeypatch.setattr(last_words, "time", SimpleNamespace(sleep=lambda seconds: next(meanwhile)()))
    told.say("cut off", after_another=True)
    assert capfd.readouterr().err == "spmd_grid: interrupted\n" and ended == [1, 1]


WAYS = {
    "speaks": (0, lambda words: words.say("the end")),
    "is silent": (5, lambda words: words.say("the end")),
    "insists": (5, lambda words: words.insist("the end")),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_printed_goes_out_before_the_job_ends(capfd, monkeypatch, way):
    first_mark, end = WAYS[way]
    last_words, events = of_mpi("liveness.exit_report"), []
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(flush=lambda: events.append("printed")))
    monkeypatch.setattr(last_words, "time", SimpleNamespace(sleep=lambda seconds: None))
    word = np.array([first_mark])
    end(last_words.ExitReport(0, word, True, lambda code: events.append("ended")))
    assert events[0] == "printed" and events[-1] == "ended" and events.count("ended") == 1
    assert capfd.readouterr().err == ("" if way == "is silent" else "spmd_grid: the end\n")
