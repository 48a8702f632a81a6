"""The wire of simulated ranks: every message and every wait goes through the scheduler.

So seeds and deadlock reports cover compiled loops too, and a loop that holds the interpreter's lock lets the other
ranks run wherever it waits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.simulated.messages import Pending, PendingReceive
from spmd_grid.transport.wire import Messages, Wire
from spmd_grid.watch.traffic import Activity

__all__ = ["PostedWord", "ThreadWire"]

_INCOMING, _OUTGOING, _SHORT = 1, 2, 3  # in place of addresses of request handles

_word_at = ctypes.c_int64.from_address


class PostedWord(Pending):
    """A request that is complete when the word at ``address``, which ``source`` writes, is at least ``value``."""

    __slots__ = ("_address", "_value")

    def __init__(self, processes: tuple[int, ...], address: int, value: int, source: int):
        super().__init__(processes, source)
        self._address, self._value = address, value

    @property
    def done(self) -> bool:
        return _word_at(self._address).value >= self._value


class ThreadWire(Wire):
    """The wire between one simulated rank and its neighbours.

    ``receive(buffer, member)`` starts a receive, ``send(buffer, member)`` sends, and ``wake(members)`` lets members
    check again whether they can go on.
    """

    calls_back = True

    def __init__(
        self,
        comm: Communicator,
        messages: Messages,
        receive: Callable[[np.ndarray, int], PendingReceive],
        send: Callable[[np.ndarray, int], None],
        wake: Callable[[Iterable[int]], None],
        sources: Sequence[int],
        readers: Sequence[int],
        activity: Activity | None,
    ):
        super().__init__()
        self._comm, self._messages, self.activity = comm, messages, activity
        self._receive, self._send, self._wake = receive, send, wake
        self._sources, self._readers = sources, readers
        self._receiving: list[PendingReceive] = []
        word, number = ctypes.c_int64, ctypes.c_int
        self.start = self.callback(self._start, number, number, word)
        self.test = self.callback(self._test, number, number, word, word, word)
        self.on_wait = self.callback(self._wait, word, word, word, word)
        if sources or readers:
            self.on_post = self.callback(self._announce, word, word, word, word)
        self.requests = list(zip((_INCOMING, _OUTGOING, _SHORT), map(len, messages), strict=True))

    def _start(self, count: int, which: int) -> None:
        if which == _INCOMING:
            self._receiving = [self._receive(buffer, member) for member, buffer in self._messages.receives]
        else:
            for member, buffer in self._messages.sends if which == _OUTGOING else self._messages.shorts:
                self._send(buffer, member)

    def _test(self, count: int, which: int, flag: int, statuses: int) -> None:
        done = which != _INCOMING or self._comm.test_all(self._receiving)
        ctypes.c_int.from_address(flag).value = done

    def _wait(self, address: int, value: int, member: int) -> None:
        process, wait_all = self._comm.process, self._comm.wait_all
        process.activity, recorder = self.activity, process.recorder
        requests: Sequence[Pending] = [self._posted(address, value, member)] if address else self._receiving
        if recorder is not None and recorder.is_idle:
            recorder.run(self, None, wait_all, requests)
        else:
            wait_all(requests)

    def _announce(self, *_: int) -> None:
        self._wake({*self._sources, *self._readers})

    def _posted(self, address: int, value: int, member: int) -> PostedWord:
        source = self._sources[member] if member >= 0 else self._readers[-2 - member]
        return PostedWord(self._comm.processes, address, value, source)

    def waits(self, words: Sequence[tuple[int, int, int]] = ()) -> list[Pending]:
        return [*[self._posted(*word) for word in words], *self._receiving]
