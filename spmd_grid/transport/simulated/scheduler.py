"""The scheduler of simulated ranks: turns, waits, deadlocks and the end of a run.

Ranks are threads.  Without a seed they run side by side (compiled kernels release the GIL).  With a seed exactly one
runs at a time, and the seed alone decides which rank goes on at each communication, so a run can be repeated.  It also
decides which of several messages a receive from any source takes, and, after ``may_keep_waiting``, which unreceived
messages keep their senders waiting.  All bookkeeping happens under one lock, so a deadlock is known at the moment it
arises; where a second thread of a rank waits, once all have waited for a second, since the first thread may go on.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spmd_grid.errors import DeadlockError, RankEndedError

__all__ = ["RankStopped", "Scheduler", "RankWait"]

RUNNING, READY, WAITING, ENDED = "running", "ready", "waiting", "ended"

# With a seed, ranks that only test requests are deadlocked after this number of tests per rank: every rank that could
# run has had its turn again and again.
_MOST_TESTS = 2_000

# The part of the unreceived messages that keep their senders waiting; the seed chooses one for the whole run.
_PENDING_PARTS = 0.0, 0.5, 1.0

_GRACE_SECONDS = 1.0  # for ranks of which a second thread waits


class RankStopped(BaseException):
    """Unwinds a rank after another one failed; a BaseException, so that programs do not catch it."""


@dataclass(slots=True)
class RankWait:
    """The wait of a rank: its condition, its description, and the ranks that can end it.

    ``needs_all``: whether all ranks of ``awaited()`` are needed, rather than any one of them.
    """

    ready: Callable[[], bool]
    describe: Callable[[], str]
    awaited: Callable[[], Sequence[int]]
    needs_all: bool = True


class Scheduler:
    """Lets ``size`` rank threads wait for one another.

    ``lock`` guards everything that ranks share.  ``wake`` is called with it held, the other methods without.
    ``failure``: the first error of the run; ``failed_rank``: the rank that raised it (None: all of them).
    ``on_turn``: with a seed, called by every rank that goes on, with its number.
    """

    def __init__(self, size: int, seed: int | None):
        self.size = size
        self.lock = threading.RLock()
        self.failure: BaseException | None = None
        self.failed_rank: int | None = None
        self.on_turn: Callable[[int], None] | None = None
        self._is_off = False  # whether an operation was cut off: no rank waits any more, and the gates raise the error
        self._random = None if seed is None else random.Random(seed)
        self._pending_part = 0.0
        self._tests: list[int] = []  # the ranks that have tested requests, since anything else happened
        self._state = [RUNNING if seed is None else READY] * size
        self._waits: dict[int, RankWait] = {}  # by rank
        self._threads: dict[int, int] = {}  # those of the ranks' programs, by rank
        self._beside: set[int] = set()  # the ranks of which another thread waits
        self._n_waits = 0
        self._active = size
        self._ended: dict[int, SystemExit | None] = {}
        # A rank that may not run waits at its gate, a lock that is released to let it run.
        self._gates = [threading.Lock() for _ in range(size)]
        for gate in self._gates:
            gate.acquire()
        self._hand_over()

    def begin(self, rank: int) -> None:
        """The first act of a rank: with a seed it waits for its turn."""
        self._threads[rank] = threading.get_ident()
        if self._random is not None:
            self._await_turn(rank)
        self._check()

    def look(self, rank: int) -> None:
        """As ``switch``, for a rank that has tested a request that was not complete."""
        if self._random is not None:
            self._tests.append(rank)
            if len(self._tests) > _MOST_TESTS * self.size:
                with self.lock:
                    text = "no simulated rank goes on: they ask again and again whether requests are done"
                    self._fail(None, DeadlockError(f"{text}\n{self._report()}"))
        self._switch(rank)

    def switch(self, rank: int) -> None:
        """A point at which, with a seed, another rank may go on; every communication passes one."""
        self._tests.clear()
        self._switch(rank)

    def any_of(self, options: Sequence[int]) -> int:
        """One of ``options``, chosen by the seed; without a seed, the first.  Called with the lock held."""
        return options[0] if self._random is None else self._random.choice(options)

    def may_keep_waiting(self) -> None:
        """From now on unreceived messages may keep their senders waiting, as the seed decides."""
        if self._random is not None:
            self._pending_part = self._random.choice(_PENDING_PARTS)

    def keeps_waiting(self) -> bool:
        """Whether the message that is being sent keeps its sender waiting.  Called with the lock held."""
        part = self._pending_part
        return part > 0 and self._random is not None and self._random.random() < part

    def _await_turn(self, rank: int) -> None:
        self._gates[rank].acquire()
        if self.on_turn is not None and self._random is not None:
            self.on_turn(rank)

    def _switch(self, rank: int) -> None:
        self._check()
        if self._random is None:
            return
        with self.lock:
            self._check()
            if self._random is None:
                return
            self._state[rank] = READY
            self._hand_over()
        self._await_turn(rank)
        self._check()

    def wait(self, rank: int, wait: RankWait, prepare: Callable[[], None]) -> bool:
        """Waits until ``wait.ready()``, or an operation was cut off.

        Returns False, at once, while another thread of the rank waits.
        ``prepare`` is called under the lock, each time before it waits: it registers the rank to be woken.
        """
        with self.lock:
            if rank in self._waits and not self._is_off:
                return False
            self._waits[rank] = wait
            if self._threads.get(rank) != threading.get_ident():
                self._beside.add(rank)
        try:
            self._wait(rank, wait, prepare)
        finally:
            self._waits.pop(rank, None)
            self._beside.discard(rank)
        return True

    def _wait(self, rank: int, wait: RankWait, prepare: Callable[[], None]) -> None:
        while True:
            with self.lock:
                self._check()
                if self._is_off or wait.ready():
                    return
                prepare()
                self._state[rank] = WAITING
                self._active -= 1
                self._n_waits += 1
                if self._ended:
                    self._fail_if_hopeless(rank)
                self._fail_if_all_wait()
                self._hand_over()
            self._await_turn(rank)

    def break_off(self, bar: Callable[[], None]) -> None:
        """Ends all waits, now and from now on, after an operation was cut off; the gates raise the error.

        ``bar()`` bars the gates, under the lock: of two ranks that are cut off at once only one gives the reason, and
        no rank that finds its gate barred ends the program while another one still waits for it.

        The calling rank may have been cut off while it was waiting: its own state may be wrong, and it may hold the
        lock.
        """
        while self.lock._is_owned():  # type: ignore[attr-defined]
            self.lock.release()
        with self.lock:
            bar()
            self._is_off = True
            self._random = None
            for rank, state in enumerate(self._state):
                if state is not ENDED:
                    self._state[rank] = RUNNING
            self._active = self.size - self._state.count(ENDED)
            for gate in self._gates:
                if gate.locked():
                    gate.release()

    def wake(self, rank: int) -> None:
        """Lets a waiting rank check again whether it can go on."""
        if self._state[rank] is WAITING:
            self._active += 1
            if self._random is None:
                self._state[rank] = RUNNING
                self._gates[rank].release()
            else:
                self._state[rank] = READY

    def end(self, rank: int, exit_: SystemExit | None = None) -> None:
        """Ends a rank whose program is over: by ``sys.exit`` if ``exit_`` is given, else by a plain return."""
        with self.lock:
            self._leave(rank)
            self._ended[rank] = exit_
            code = 0 if exit_ is None or exit_.code is None else exit_.code
            if code != 0:
                code = code if isinstance(code, int) else 1
                self._fail(rank, RankEndedError(f"rank {rank} of {self.size} {_how(exit_)}", rank, code))
            for other in range(self.size):
                if self._state[other] is WAITING and self._waits[other].ready():
                    self.wake(other)
                elif self._state[other] is WAITING:
                    self._fail_if_hopeless(other)
            self._fail_if_all_wait()
            self._hand_over()

    def fail(self, rank: int, failure: BaseException) -> None:
        """Ends a rank whose program raised: the first failure ends the run, and every waiting rank unwinds."""
        with self.lock:
            self._leave(rank)
            self._fail(rank, failure)
            self._hand_over()

    def has_ended(self, rank: int) -> bool:
        """Whether a rank's program is over."""
        return self._state[rank] is ENDED

    def stop(self, failure: BaseException) -> None:
        """Ends the run from outside, as for Ctrl-C."""
        with self.lock:
            self._fail(None, failure)

    def _check(self) -> None:
        if self.failure is not None:
            raise RankStopped

    def _leave(self, rank: int) -> None:
        if self._state[rank] is not WAITING:
            self._active -= 1
        self._state[rank] = ENDED

    def _hand_over(self) -> None:
        """With a seed, lets one of the ready ranks run, if none runs."""
        if self._random is None or RUNNING in self._state:
            return
        ready = [rank for rank, state in enumerate(self._state) if state is READY]
        if ready:
            chosen = self._random.choice(ready)
            self._state[chosen] = RUNNING
            self._gates[chosen].release()

    def _fail(self, rank: int | None, failure: BaseException) -> None:
        if self.failure is not None:
            return
        self.failure, self.failed_rank = failure, rank
        self._random = None  # the order no longer matters: all unwind at once
        for other in range(self.size):
            if self._state[other] is READY:
                self._state[other] = RUNNING
                self._gates[other].release()
            self.wake(other)

    def _fail_if_all_wait(self, is_last_look: bool = False) -> None:
        if self._active or WAITING not in self._state:
            return
        if is_last_look or not self._beside:
            self._fail(None, DeadlockError(f"deadlock: no simulated rank can go on\n{self._report()}"))
            return
        n_waits = self._n_waits

        def look_again() -> None:
            with self.lock:
                if self._n_waits == n_waits:
                    self._fail_if_all_wait(is_last_look=True)

        timer = threading.Timer(_GRACE_SECONDS, look_again)
        timer.daemon = True
        timer.start()

    def _fail_if_hopeless(self, rank: int) -> None:
        wait = self._waits[rank]
        awaited = wait.awaited()
        gone = [other for other in awaited if other in self._ended]
        if not gone or (len(gone) < len(awaited) and not wait.needs_all):
            return
        how = _how(self._ended[gone[0]])
        text = f"rank {gone[0]} of {self.size} {how} while rank {rank} waits for it\n{self._report()}"
        self._fail(gone[0], RankEndedError(text, gone[0]))

    def _report(self) -> str:
        """A line for each rank; of many ranks, the first ones."""
        lines = [self._line(rank) for rank in range(self.size)]
        return "\n".join(lines[:64] + [f"  ... and {len(lines) - 64} more ranks"] * (len(lines) > 64))

    def _line(self, rank: int) -> str:
        if self._state[rank] is ENDED:
            return f"  rank {rank} has ended"
        if self._state[rank] is not WAITING:
            return f"  rank {rank} " + ("looks whether requests are done" if rank in self._tests else "runs")
        awaited = [str(other) for other in self._waits[rank].awaited()]
        whom = ", ".join(awaited[:8]) + (", ..." if len(awaited) > 8 else "")
        link = " and " if self._waits[rank].needs_all else " or "
        whom = link.join(awaited) if len(awaited) == 2 else whom
        whom = f"rank{'s' * (len(awaited) > 1)} {whom}" if awaited else "no rank"
        return f"  rank {rank} waits in {self._waits[rank].describe()} for {whom}"


def _how(exit_: SystemExit | None) -> str:
    """A description of how a rank ended."""
    if exit_ is None:
        return "returned from the program"
    return f"called sys.exit({'' if exit_.code is None else repr(exit_.code)})"
