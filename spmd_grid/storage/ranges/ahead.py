"""Work that a thread does ahead of the one that needs its results: blocks are read while cells are on their way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["Ahead"]

Result = TypeVar("Result")


class Ahead(Generic[Result]):
    """The results of ``jobs``, one after the other, which a thread works out: at most ``most`` that are not done with.

    Local; a context manager, at whose end the thread has ended.  Jobs must not communicate.
    """

    def __init__(self, jobs: Iterable[Callable[[], Result]], most: int):
        self._jobs, self._free = jobs, threading.Semaphore(most)
        self._found: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="spmd_grid reading", daemon=True)

    def next(self) -> Result:
        """Wait for the next result.  Raises the error of its job; there are no results after it."""
        result, error = self._found.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # the result is there, as there is no error

    def done(self) -> None:
        """Let one more job begin: the oldest result is not needed any more."""
        self._free.release()

    def __enter__(self) -> Ahead[Result]:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped = True
        self._free.release()
        self._thread.join()

    def _run(self) -> None:
        for job in self._jobs:
            self._free.acquire()
            if self._stopped:
                return
            try:
                self._found.put((job(), None))
            except BaseException as error:  # raised where the result is asked for
                self._found.put((None, error))
                return
