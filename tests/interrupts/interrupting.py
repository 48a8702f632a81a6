"""Raises an exception at the n-th event of an operation: what a signal's handler may do between any two bytecodes."""

import sys
from contextlib import contextmanager

from spmd_grid.watch.call_site import PACKAGE


class Interrupt(BaseException):
    """What the tests raise: as KeyboardInterrupt, no ``Exception``."""


class TimeLimit(Exception):
    """What the handlers of time limits raise: an ordinary exception."""


class Events:
    """Counts the events in this package's code within `watch`, and raises ``kind`` at number ``n``, from 0."""

    def __init__(self, n: int | None = None, kind: type[BaseException] = Interrupt, opcodes: bool = False):
        self.n, self.kind, self.opcodes = n, kind, opcodes
        self.count = 0
        self.place = ""

    @contextmanager
    def watch(self):
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield self
        finally:
            sys.settrace(before)

    def _trace(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if self.opcodes:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event in ("line", "opcode", "call"):
            number, self.count = self.count, self.count + 1
            if number == self.n:
                self.place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {event}"
                raise self.kind(self.place)
        return self._trace
