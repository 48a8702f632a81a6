"""The comparison of plain operands: numbers, numpy arrays, indices and options must be equal on all processes.

In checking mode they are compared before each function.

SPMD_GRID_CHECK=1        a + rank        ->  MismatchError on every process:
                                               rank 0 (0,): add(operands='ShardedArray, 0') at app.py:5
                                               rank 1 (1,): add(operands='ShardedArray, 1') at app.py:5

Else processes note some of them (`note_operands`), and compare their notes at the next meeting of the whole grid that
Python makes: of each kind of call the first one, the second, the fourth, and so on, so that loops pay nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from hashlib import blake2b
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from spmd_grid.compute.splits import ArrayOnGrid, is_sharded
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.ops.outcome import compare_texts
from spmd_grid.watch.call_site import call_site

__all__ = ["compared", "is_checking", "note_call", "note_operands"]

Result = TypeVar("Result")

_thread = threading.local()  # simulated ranks are threads
_SHOWN = 60
_LISTED = 4  # notes that an error shows
_CELLS = 1024  # of an array, that are compared outside checking mode
_MOST_COUNTED = 4096


def is_checking(grid: ProcessGrid) -> bool:
    """Whether operands are compared: in checking mode, except within a function whose operands have been."""
    recorder = grid.process.recorder
    return recorder is not None and recorder.check and not getattr(_thread, "is_within", False)


def compared(
    a: ArrayOnGrid, name: str, operands: tuple[Any, ...], options: dict[str, Any], run: Callable[[], Result]
) -> Result:
    """``run()``, once all processes have been found to call ``name`` with equal plain operands.

    Collective over a's grid.  Raises MismatchError.
    """
    if options or any(not is_sharded(each) for each in operands):
        texts = [_shown(each) for each in operands]
        texts += [f"{option}={_shown(value)}" for option, value in options.items()]
        agree = _AgreeOperands(name).agree
        a.grid.process.gate.run(name, agree, a.grid, tuple(range(a.grid.ndim)), ", ".join(texts))
    _thread.is_within = True
    try:
        return run()
    finally:
        _thread.is_within = False


class _Notes:
    """The plain operands that one process has noted since its grid last compared them."""

    def __init__(self, grid: ProcessGrid):
        self._grid = ref(grid)
        self.counts: dict[Hashable, int] = {}
        self._digest = blake2b(digest_size=8)
        self._first: list[str] = []
        self._number = 0

    def add(self, text: str) -> None:
        """Note operands, given as text."""
        self._digest.update(text.encode())
        self._number += 1
        if len(self._first) < _LISTED:
            self._first.append(f"{text} at {call_site()}")

    def compare(self) -> None:
        """Compare the notes of all processes.  Collective over the grid, within an operation.  Raises MismatchError."""
        digest, first, number = self._digest.hexdigest(), self._first, self._number
        grid = self._grid()
        assert grid is not None  # its operation is under way
        grid.settle = None
        self._digest, self._first, self._number = blake2b(digest_size=8), [], 0
        more = f" and {number - len(first)} more" if number > len(first) else ""
        compare_texts(grid, "plain operands", digest, f" of {', '.join(first)}{more}")


def note_operands(grid: ProcessGrid, name: str, *operands: Any) -> None:
    """Note the plain ``operands`` of ``name``, to be compared at the next meeting of the grid.

    Local, called by every process alike.
    """
    process = grid.process
    if grid.size == 1 or (process.recorder is not None and process.recorder.check) or get_ident() != process.gate.owner:
        return
    notes = grid.noted
    if notes is None:
        notes = grid.noted = _Notes(grid)
    notes.add(f"{name}({', '.join([_shown(each, _CELLS) for each in operands])})")
    grid.settle = notes.compare


def note_call(grid: ProcessGrid, frame: FrameType, name: str, *operands: Any) -> None:
    """`note_operands`, of some of the calls that come from one call site: that at which ``frame`` is."""
    if grid.size == 1:
        return
    notes = grid.noted
    if notes is None:
        notes = grid.noted = _Notes(grid)
    code = frame.f_code
    call_of = code.co_name, code.co_firstlineno, frame.f_lasti  # alike on all processes, as addresses are not
    counts = notes.counts
    count = counts[call_of] = counts.get(call_of, 0) + 1
    if not count & (count - 1):
        if len(counts) > _MOST_COUNTED:
            counts.clear()
        note_operands(grid, name, *operands)


class _AgreeOperands(AgreePlan):
    """Checks that all processes call a function with the same operands, given as text."""

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str) -> dict[str, Any]:
        return {"operands": repr(plan)}


def _shown(operand: Any, most: int | None = None) -> str:
    """A text that is equal for equal operands, and for any two sharded arrays; of arrays ``most`` cells count."""
    if is_sharded(operand):
        return type(operand).__name__
    if isinstance(operand, np.ndarray):
        cells = operand
        if most is not None and operand.size > most:
            cells = operand.flat[:: -(-operand.size // most)]
        return f"{operand.dtype} {operand.shape} #{blake2b(_bytes_of(cells), digest_size=6).hexdigest()}"
    if isinstance(operand, tuple | list):
        n = len(operand)
        some = operand if most is None or n <= most else [n, *operand[:: -(-n // most)]]
        try:
            return _cut(f"{type(operand).__name__}({', '.join([_shown(each, most) for each in some])})")
        except RecursionError:
            return f"a {type(operand).__name__} that holds itself"
    if operand is None or isinstance(operand, int | float | complex | str | slice | type(...) | np.generic | np.dtype):
        return _cut(repr(operand))
    return type(operand).__name__


def _bytes_of(cells: np.ndarray) -> bytes:
    """Bytes that are equal for equal cells: those of the cells, unless some of them mean nothing."""
    if cells.dtype.hasobject:  # addresses
        return b""
    if cells.dtype.fields is not None or cells.dtype.char in "gG":  # there may be padding
        return repr(cells.tolist()).encode()
    return np.ascontiguousarray(cells).tobytes()


def _cut(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}... #{blake2b(text.encode(), digest_size=6).hexdigest()}"
