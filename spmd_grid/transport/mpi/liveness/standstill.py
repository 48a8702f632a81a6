"""Waits of processes for one another: found without a time limit, in operations of different groups as well.

A process that has waited for some tenths of a second asks those that it waits for.  One that waits too answers with
what it has done so far, which decides whether the first has to wait until it goes on.  A chain of such waits that comes
back to where it began can never end::

    0 waits for 1     0 -- Chain(0) --> 1
    1 waits for 2                       1 -- Chain(0, 1) --> 2
    2 waits for 0     0 <------- Chain(0, 1, 2) ------------ 2

Nothing is assumed of times: each process passes a chain on only while it is in the very wait of which the process
before it knows, so that all of them wait when it comes back (K. M. Chandy, J. Misra and L. M. Haas, "Distributed
deadlock detection", 1983).  A process that computes, that waits in a call of MPI's, or that has several threads,
answers nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spmd_grid.errors import DeadlockError, MismatchError, SpmdError
from spmd_grid.transport.gate import AFTERWARDS
from spmd_grid.transport.mismatch import OVERLAPPING_GROUPS, mismatch
from spmd_grid.transport.mpi.liveness.departure import Departure, WaitedFor

__all__ = ["Answer", "Chain", "Link", "Question", "Standstill", "StandstillMessage", "error_of"]

# Seconds of waiting until others are asked, the most between two questions, and how long a wait must have been the
# same before it is told; the most processes that are asked at once.
_ASKED_AFTER, _ASKED_AGAIN, _SETTLED = 0.3, 2.0, 0.05
_MOST_ASKED = 32


@dataclass(frozen=True)
class Question:
    """The question whether the receiver waits, and for what it has come so far."""


@dataclass(frozen=True)
class Answer:
    """The answer of a process that waits: the number of its wait, and what it has done before."""

    number: int
    stock: Departure


@dataclass(frozen=True)
class Link:
    """The wait of one process: its number there, and its text for reports."""

    rank: int
    number: int
    text: str
    for_message: bool


@dataclass(frozen=True)
class Chain:
    """Waits, each for the process of the next one; the last one waits for the receiver, in its wait ``number``."""

    links: tuple[Link, ...]
    number: int


StandstillMessage: TypeAlias = Question | Answer | Chain


class Standstill:
    """The search of one process, for its watching thread.

    ``post`` sends a message to a process; ``take_stock`` fills in what this one has done; ``find_wait()`` is what its
    main thread waits for, and ``where()`` says that for reports; ``end(links)`` is called with a chain that has come
    back.
    """

    def __init__(
        self,
        rank: int,
        post: Callable[[StandstillMessage, int], None],
        take_stock: Callable[[Departure], None],
        find_wait: Callable[[], WaitedFor | None],
        where: Callable[[], str],
        end: Callable[[tuple[Link, ...]], None],
    ):
        self._rank, self._post, self._take_stock = rank, post, take_stock
        self._find_wait, self._where, self._end = find_wait, where, end
        self._arrived: deque[tuple[int, StandstillMessage]] = deque()
        self._number = 0  # of the present wait
        self._waiting: WaitedFor | None = None
        self._stock: Departure | None = None  # what this process had done when others were told of it
        self._since = self._next_question = 0.0
        self._next_asked = 0
        self._known: dict[int, Answer] = {}  # of those that wait too, by process
        self._passed: set[tuple[int, int]] = set()  # chains that were passed on in this look, by their first link

    @property
    def has_news(self) -> bool:
        """Whether messages have come since the last look."""
        return bool(self._arrived)

    def receive(self, source: int, message: StandstillMessage) -> None:
        """Takes in a message, for the next look.  From any thread."""
        self._arrived.append((source, message))

    def look(self) -> None:
        """Asks if this process has waited for some time, and answers what has arrived."""
        now, waiting = time.monotonic(), self._find_wait()
        if waiting is not None and _others_may_operate():
            waiting = None
        if waiting is not self._waiting:
            self._begin(waiting, now)
        self._passed.clear()
        is_settled = waiting is not None and now - self._since > _SETTLED
        while self._arrived:
            source, message = self._arrived.popleft()
            if is_settled and self._is_the_same(now):
                self._take(source, message)
        if is_settled and now > self._next_question:
            self._next_question = now + min(now - self._since, _ASKED_AGAIN)
            self._ask()

    def _begin(self, waiting: WaitedFor | None, now: float) -> None:
        self._waiting, self._stock = waiting, None
        self._number += 1
        self._since, self._next_question = now, now + _ASKED_AFTER
        self._known.clear()

    def _is_the_same(self, now: float) -> bool:
        """Whether this process is in the wait that was found, and has done nothing since others were told of it.

        Started operations may go on while it waits.
        """
        stock = Departure("")
        self._take_stock(stock)
        if self._stock is None:
            self._stock = stock
        waiting = self._find_wait()
        if waiting is not self._waiting or stock != self._stock:
            self._begin(waiting, now)
            return False
        return waiting is not None

    def _ask(self) -> None:
        partners = [] if self._waiting is None else [other for other in self._waiting.awaited() if other != self._rank]
        if len(partners) > _MOST_ASKED:
            begin = self._next_asked % len(partners)
            self._next_asked += _MOST_ASKED
            partners = (partners[begin:] + partners[:begin])[:_MOST_ASKED]
        for other in partners:
            self._post(Question(), other)

    def _take(self, source: int, message: StandstillMessage) -> None:
        if isinstance(message, Question):
            if self._stock is not None:
                self._post(Answer(self._number, self._stock), source)
        elif isinstance(message, Answer):
            self._known[source] = message
            if source > self._rank:  # chains begin at their lowest process, so that one finds each
                self._pass_on((), source)
        elif message.number == self._number:
            first, ranks = message.links[0], [link.rank for link in message.links]
            if first.rank == self._rank:
                if first.number == self._number and len(ranks) > 1 and self._waits_for(ranks[1]):
                    self._end(message.links)
            elif first.rank < self._rank and self._rank not in ranks and (first.rank, first.number) not in self._passed:
                self._passed.add((first.rank, first.number))
                for other in tuple(self._known):
                    self._pass_on(message.links, other)

    def _pass_on(self, links: tuple[Link, ...], other: int) -> None:
        """Sends a chain that this process continues to one that it waits for."""
        waiting = self._waiting
        if waiting is not None and self._waits_for(other):
            link = Link(self._rank, self._number, f"{self._where()}, waits for rank {other}", waiting.for_message)
            self._post(Chain((*links, link), self._known[other].number), other)

    def _waits_for(self, other: int) -> bool:
        """Whether this process cannot go on before another one has left the wait that is known of it."""
        waiting, known = self._waiting, self._known.get(other)
        if waiting is None or known is None or other not in waiting.awaited():
            return False
        return waiting.ended_partner({other: known.stock}) is not None


def _others_may_operate() -> bool:
    """Whether there are further threads of the program: compiled loops of these may go on while one waits."""
    return len([thread for thread in threading.enumerate() if not thread.name.startswith("spmd_grid ")]) > 1


def error_of(links: Sequence[Link]) -> SpmdError:
    """The error that says that a chain of waits has come back to where it began."""
    if any(link.for_message for link in links):
        lines = "\n".join(f"  {link.text}" for link in links)
        return DeadlockError(f"processes wait for one another, so that none can go on\n{lines}\n{AFTERWARDS}")
    error = mismatch([link.text for link in links], OVERLAPPING_GROUPS)
    return MismatchError(f"{error}\n{AFTERWARDS}")
