"""The comparison of plain operands in checking mode: numbers, numpy arrays and options must be equal on all processes.

SPMD_GRID_CHECK=1        a + rank        ->  MismatchError on every process:
                                               rank 0 (0,): add(operands='ShardedArray, 0') at app.py:5
                                               rank 1 (1,): add(operands='ShardedArray, 1') at app.py:5
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from spmd_grid.compute.splits import ArrayOnGrid, is_sharded
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.compare import AgreePlan

__all__ = ["compared", "is_checking"]

Result = TypeVar("Result")

_thread = threading.local()  # simulated ranks are threads
_SHOWN = 60


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


class _AgreeOperands(AgreePlan):
    """Checks that all processes call a function with the same operands, given as text."""

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str) -> dict[str, Any]:
        return {"operands": repr(plan)}


def _shown(operand: Any) -> str:
    """A text that is equal for equal operands, and for any two sharded arrays."""
    if is_sharded(operand):
        return type(operand).__name__
    if isinstance(operand, np.ndarray):
        # Of objects, the addresses differ.
        cells = b"" if operand.dtype.hasobject else np.ascontiguousarray(operand).tobytes()
        return f"{operand.dtype} {operand.shape} #{blake2b(cells, digest_size=6).hexdigest()}"
    if isinstance(operand, tuple | list):
        try:
            return _cut(f"{type(operand).__name__}({', '.join(map(_shown, operand))})")
        except RecursionError:
            return f"a {type(operand).__name__} that holds itself"
    if operand is None or isinstance(operand, int | float | complex | str | slice | type(...) | np.generic | np.dtype):
        return _cut(repr(operand))
    return type(operand).__name__


def _cut(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}... #{blake2b(text.encode(), digest_size=6).hexdigest()}"
