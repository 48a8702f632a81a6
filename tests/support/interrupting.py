"""Raises an exception at the n-th event of an operation: what a signal's handler may do between any two bytecodes."""

import dis
import sys
from contextlib import contextmanager

from spmd_grid.watch.call_site import PACKAGE


class Interrupt(BaseException):
    """An exception that the tests raise: as KeyboardInterrupt, no ``Exception``."""


class TimeLimit(Exception):
    """An ordinary exception, as handlers of time limits raise it."""


class Events:
    """Counts the events in this package's code within `watch`, and raises ``kind`` at number ``n``, from 0.

    Events are calls and lines, or with ``opcodes`` calls and bytecodes.
    """

    def __init__(self, n=None, kind=Interrupt, opcodes=False):
        self.n, self.kind, self.opcodes = n, kind, opcodes
        self.count = 0
        self.place = ""  # where it was raised
        self._kept_trace = self._trace  # CPython 3.11 may call a trace function that nothing else keeps alive

    @contextmanager
    def watch(self):
        before = sys.gettrace()
        sys.settrace(self._kept_trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if self.opcodes:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event in ("call", "line", "opcode"):
            number, self.count = self.count, self.count + 1
            if number == self.n:
                self.place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {event}"
                raise self.kind(self.place)
        return self._kept_trace


def has_begun(error):
    """Whether the operation that ``error`` came from had begun: its first act is to go to the gate, or to be compiled
    code that waits."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if {"gate", "token"} <= trace.tb_frame.f_locals.keys() or code.co_name in ("guarded", "raise_in_loop"):
            return True
        trace = trace.tb_next
    return False


def is_over(error):
    """Whether the operation that ``error`` came from was over: in all its frames nothing was left but to return."""
    places = {}  # by frame: the innermost one may stand twice in a traceback
    trace = error.__traceback__.tb_next  # what `persist` called, and what that called
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        places[trace.tb_frame] = trace.tb_lasti
        trace = trace.tb_next
    if not places:
        return False
    *callers, (innermost, at) = [(frame.f_code, at) for frame, at in places.items()]
    return returns(innermost, at) and all(returns(code, at + 1) for code, at in callers)


def returns(code, offset):
    """Whether ``code`` only hands values on from ``offset`` or after it, until it returns."""
    steps = [step for step in dis.get_instructions(code) if step.offset >= offset]
    for step in steps:
        if step.opname == "JUMP_FORWARD":
            return returns(code, step.argval)
        if step.opname not in ("STORE_FAST", "LOAD_FAST", "LOAD_CONST", "POP_TOP", "NOP"):
            return step.opname == "RETURN_VALUE"
    return False


def persist(operation, *args, **options):
    """The operation; called once more where the exception came before it had begun.

    Where the operation was over and only its result was lost, the exception goes on: the others have had theirs.
    """
    try:
        return operation(*args, **options)
    except (Interrupt, TimeLimit) as error:
        if has_begun(error) or is_over(error):
            raise
        return operation(*args, **options)
