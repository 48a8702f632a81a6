"""Started operations: iterators that yield the requests they wait for.

A process that waits for one started operation moves all of them, so the order of the ``wait`` calls may differ
between processes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, TypeAlias

from spmd_grid.errors import DeadlockError, RequestError, SpmdError
from spmd_grid.transport.communicator import Activity, Communicator, Process

__all__ = ["Request", "Steps", "closed_plan", "drive"]

Steps: TypeAlias = Iterator[list[Any]]  # most often a generator, whose value is the result of the operation


def closed_plan(operation: str) -> RequestError:
    """Make the error of ``operation`` on a plan that has been closed."""
    return RequestError(f"{operation}: the plan has been closed; make a new one")


def drive(comm: Communicator, steps: Steps) -> Any:
    """Runs ``steps`` to the end, waiting where they wait; their result."""
    while True:
        try:
            requests = next(steps)
        except StopIteration as end:
            return end.value
        comm.wait_all(requests)


class _Wait:
    """The wait for a started operation, as reports describe it."""

    def __init__(self, activity: Activity | None):
        self._activity = activity

    def describe(self) -> str:
        return "wait()" if self._activity is None else f"wait() for {self._activity.describe()}"


class Request:
    """A started operation.  ``wait()`` gives its result; until then its arrays must not be touched.

    Every request must be waited for, by each process, in any order.
    """

    __slots__ = ("_activity", "_comm", "_done", "_error", "_result", "_steps", "_taken", "requests")

    def __init__(self, comm: Communicator, steps: Steps, activity: Activity | None = None) -> None:
        self.requests: list[Any] = []
        self._comm = comm
        self._steps: Steps | None = steps
        self._activity = activity
        self._done = self._taken = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._step()
        if not self._done:
            comm.process.pending.append(self)
            comm.process.progress()

    @classmethod
    def completed(cls, result: Any, comm: Communicator | None = None) -> Request:
        """A request of an operation that has ended; ``comm``: of its group, None if it needs no other process.  Local.

        After a cut, the wait for an operation of a group is refused as it is where the operation has not ended yet.
        """
        request = cls.__new__(cls)
        request.requests, request._activity = [], None
        request._comm = comm  # type: ignore[assignment]  # without one nothing is left to do
        request._steps = None
        request._done, request._taken, request._result, request._error = True, False, result, None
        return request

    @property
    def has_result(self) -> bool:
        """Whether the operation has ended, without an error.  Local; makes no progress."""
        return self._done and self._error is None

    @property
    def result(self) -> Any:
        """The result, if there is one already.  Local."""
        return self._result

    @property
    def process(self) -> Process:
        """The process that has started it.  Local."""
        return self._comm.process

    def advance(self) -> None:
        """Goes on as far as possible without waiting.  Local."""
        while not self._done and self._comm.test_all(self.requests):
            self._step()

    def _step(self) -> None:
        gate = self._comm.process.gate
        try:
            self.requests = next(self._steps)  # type: ignore[arg-type]  # no step follows `completed`
        except StopIteration as end:
            self._end(end.value, None)
        except SpmdError as error:
            if error.cuts_off:
                gate.cut_off(self._name, error)
            self._end(None, error)
        except BaseException as error:
            if not gate.is_spared(error):
                gate.cut_off(self._name, error)
                raise
            self._end(None, error)

    def _end(self, result: Any, error: BaseException | None) -> None:
        self._done, self._result, self._error = True, result, error
        self.requests = []
        if self in self._comm.process.pending:
            self._comm.process.pending.remove(self)

    @property
    def _name(self) -> str:
        """The operation, as errors describe it."""
        return "a started operation" if self._activity is None else self._activity.describe()

    @property
    def done(self) -> bool:
        """Whether ``wait()`` would return at once; makes progress.  Local."""
        if not self._done:
            self._comm.process.gate.run(_Wait(self._activity), self._look)
        return self._done

    def _look(self) -> None:
        self._comm.process.progress()
        if not self._done:
            self._comm.give_way()

    def wait(self) -> Any:
        """Waits for the end; the result of the operation, or its error.  Collective, as the operation is."""
        if self._taken:
            raise RequestError("wait() on a request whose result has been taken; a request is waited for once")
        if self._steps is None:
            if self._comm is not None:
                self._comm.process.gate.check()
            self._taken = True
            return self._result
        return self._comm.process.gate.run(_Wait(self._activity), self.take_in_gate)

    def take_in_gate(self) -> Any:
        """As `wait`, within an operation.  Collective."""
        self._finish()
        self._taken = True
        if self._error is not None:
            self._comm.process.gate.spare(self._error)  # the operation ended when it came
            raise self._error
        return self._result

    def _finish(self) -> None:
        """Goes on to the end, as a part of an operation that has gone through the gate."""
        if self._done:
            return
        recorder = self._comm.process.recorder
        if recorder is not None and recorder.is_idle:
            recorder.run(_Wait(self._activity), None, self._finish)
            return
        while not self._done:
            self._comm.process.activity = self._activity
            try:
                self._comm.wait_all(self.requests)
            except DeadlockError as error:  # no process will end it
                if isinstance(self._steps, Generator):
                    self._steps.close()
                self._end(None, error)
            self._comm.process.progress()  # of which this is one; another thread may be moving it
