"""Hosts that do not answer while a process waits: a line says which, though nothing ends because of it.

A process that has waited for long asks the first rank of another host to answer, and if it does not, all ranks there.
Each rank of a host asks another host, so that all hosts are asked by some, with few messages.  A host without an answer
may be down or unreachable, of which MPI says nothing; it may be stopped or overloaded; or all its ranks compute in C
and keep the interpreter's lock.  These look alike from outside, and a pulled cable may be put back: so the job goes on
unless a time limit is set (`HangWatch`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spmd_grid.formatting import spans

__all__ = ["HostAnswer", "HostCall", "HostWatch"]

# Seconds of waiting until a host is asked, between two questions, and until silence is reported.
_ASKED_AFTER, _ASKED_AGAIN, _SILENT_AFTER = 20.0, 5.0, 10.0
_LAST_ANSWERS_SECONDS = 2.0  # every process has said by then that it ends: only a host that dies now is silent


@dataclass
class HostCall:
    """A question of another process, which the watching thread answers."""


@dataclass
class HostAnswer:
    """The answer to `HostCall`."""


class HostWatch:
    """The watch of one process, for its watching thread.

    ``hosts``: the ranks of each host by its name; ``post`` sends a question to a process, ``say`` prints a line.
    """

    def __init__(
        self,
        rank: int,
        label: Callable[[], str],
        hosts: Mapping[str, Sequence[int]],
        post: Callable[[HostCall, int], None],
        say: Callable[[str], None],
    ):
        self._label, self._post, self._say = label, post, say
        self._host, self._asked_ranks = _asked_host(rank, hosts)
        self._waits_since: float | None = None
        self._first_call: float | None = None  # the time of the first question without an answer
        self._next_call = 0.0
        self._calls = 0
        self._unanswered = 0  # questions without an answer
        self._reported: float | None = None  # the time of the first question, once the silence is reported

    def look(self, is_waiting: bool, where: Callable[[], str]) -> None:
        """Takes the next step.  ``is_waiting``: whether the main thread waits; ``where()`` says for what."""
        now = time.monotonic()
        if not is_waiting:
            self._waits_since = None
            if self._reported is None:
                self._first_call = None
            return
        if self._waits_since is None:
            self._waits_since = now
        waited = now - self._waits_since
        if not self._asked_ranks or waited < _ASKED_AFTER or now < self._next_call:
            return
        if self._first_call is None:
            self._first_call, self._calls = now, 0
        elif self._reported is None and now - self._first_call >= _SILENT_AFTER:
            self._reported = self._first_call
            ranks = f"rank{'s' * (len(self._asked_ranks) > 1)} {spans(self._asked_ranks)}"
            self._say(
                f"{self._label()} has waited for {waited:.0f} s in {where()}, and {self._host} ({ranks}) does not"
                " answer: it is down, stopped or cannot be reached, or its ranks compute without giving Python a"
                " chance; the job goes on if it answers again, and ends by itself only where SPMD_GRID_TIMEOUT is set"
            )
        self._next_call = now + _ASKED_AGAIN
        # A silent host is asked a few times only: what it does not take piles up here.
        if self._calls < 3:
            self._calls += 1
            for other in self._asked_ranks[: 1 if self._calls == 1 else None]:
                self._post(HostCall(), other)
                self._unanswered += 1

    def answered(self) -> None:
        """Takes in an answer."""
        self._unanswered -= 1
        if self._reported is not None:
            silent = time.monotonic() - self._reported
            self._say(f"{self._host} answers {self._label()} again, after {silent:.0f} s")
        self._reported = self._first_call = None

    def take_last_answers(self, collect: Callable[[], None]) -> None:
        """Calls ``collect()`` until all questions are answered, or for two seconds: a host may have died.

        For the end of the program: MPI complains of messages that no process has received.
        """
        end = time.monotonic() + _LAST_ANSWERS_SECONDS
        while self._unanswered > 0 and time.monotonic() < end:
            collect()
            time.sleep(1e-3)


def _asked_host(rank: int, hosts: Mapping[str, Sequence[int]]) -> tuple[str, Sequence[int]]:
    """The host that a process asks, with its ranks; without ranks if others ask all there are."""
    own = next(name for name, ranks in hosts.items() if rank in ranks)
    names = list(hosts)
    position, step = names.index(own), hosts[own].index(rank) + 1
    if step >= len(names):
        return "", ()
    host = names[(position + step) % len(names)]
    return host, hosts[host]
