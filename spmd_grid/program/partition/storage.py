"""The memory of a schedule's values on one process: results written over operands, and arrays kept from run to run.

numpy's ufuncs and Fourier transforms, and moves, can write their value to a given array; computations can write to that
of an operand which is not read afterwards.  Larger values that do not leave the program
lie in a few arrays that are kept, in memory that other processes can read; one that is no longer read gives its array
to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np

from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Step, Wait

__all__ = ["Storage", "direct_call"]

_SMALL = 1 << 12  # bytes; smaller arrays travel with the header, and allocating them costs less than anything else
_TAKE_OUT = {np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft}
_DEFAULTS = {"casting": "same_kind"}


def direct_call(local: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The function that ``local`` calls with positional arguments, and that takes ``out``; None if it does more.

    A ufunc with its default casting is called as it is.  Callables that take ``out`` may say so by an attribute
    ``takes_out``.

    >>> direct_call(partial(np.add, casting="same_kind"))
    <ufunc 'add'>
    """
    if getattr(local, "takes_out", False):
        return local
    if not isinstance(local, partial) or local.args:
        return None
    if isinstance(local.func, np.ufunc):
        return local.func if local.keywords == _DEFAULTS else local
    return local if local.func in _TAKE_OUT else None


class Storage:
    """The array that each value of a schedule is written to.

    ``target(step)``: the operand that the step's result is written over; "new" for a new array in memory that other
    processes can read; an array that is kept; or None where numpy makes one.
    """

    def __init__(self, schedule: Schedule, grid: ProcessGrid, writes: Callable[[Step], bool]):
        """``writes``: whether a step can write its only result to a given array."""
        self._grid = grid
        self._last = _last_uses(schedule)
        self._roots: dict[int, int] = {id(each): id(each) for each in schedule.arguments}
        self._members: dict[int, list[int]] = {id(each): [id(each)] for each in schedule.arguments}
        self._own: set[int] = set()
        self._over: dict[int, LocalValue] = {}
        for number, step in enumerate(schedule.steps):
            self._follow(number, step, writes(step))
        leaving = {self._roots[id(each)] for each in schedule.results if isinstance(each, LocalValue)}
        self._kept: dict[int, np.ndarray | str] = {}
        self._assign(schedule.steps, leaving, writes)

    def target(self, step: Step) -> LocalValue | np.ndarray | str | None:
        """The array that the only result of the step is written to."""
        over = self._over.get(id(step))
        return over if over is not None else self._kept.get(id(step))

    def is_own(self, value: LocalOperand) -> bool:
        """Whether the array of a value is the program's own, and no view of another one."""
        return id(value) in self._own

    def _follow(self, number: int, step: Step, writes: bool) -> None:
        """Find which values share memory, and the operand that the step writes over."""
        if isinstance(step, Wait):
            return
        if not writes:  # its results may be views of its operands: all of them share memory, for all that is known
            self._share([*step.inputs, *step.results])
            return
        (result,) = step.results
        over = self._dying(number, step, result) if isinstance(step, Compute) else None
        self._own.add(id(result))
        if over is None:
            self._share([result])
        else:
            self._over[id(step)] = over
            self._share([over, result])

    def _dying(self, number: int, step: Compute, result: LocalValue) -> LocalValue | None:
        function = direct_call(step.operation.local)
        function = function.func if isinstance(function, partial) else function
        is_by_cells = isinstance(function, np.ufunc) and function.signature is None
        if not result.shape or not (is_by_cells or function in _TAKE_OUT):
            return None
        for x in step.inputs:
            is_alike = x.dtype == result.dtype and self._shape(x) == self._shape(result)
            if is_alike and id(x) in self._own and self._death(self._roots[id(x)]) <= number:
                return x
        return None

    def _share(self, values: Sequence[LocalValue]) -> None:
        root = id(values[0])
        root = self._roots.setdefault(root, root)
        members = self._members.setdefault(root, [root])
        for each in values[1:]:
            other = self._roots.setdefault(id(each), id(each))
            if other != root:
                moved = self._members.pop(other, [id(each)])
                members += moved
                self._roots.update(dict.fromkeys(moved, root))

    def _death(self, root: int) -> float:
        """The number of the last step that reads any of the values that share memory."""
        return max(self._last.get(each, -1) for each in self._members[root])

    def _shape(self, value: LocalValue) -> tuple[int, ...]:
        return value.layout.local_shape(self._grid.own_coords)

    def _assign(self, steps: Sequence[Step], leaving: set[int], writes: Callable[[Step], bool]) -> None:
        """Give larger values arrays: new ones where they leave the program, else kept ones, by turns."""
        free: dict[int, list[np.ndarray]] = {}
        held: dict[int, np.ndarray] = {}
        ends: dict[float, list[int]] = {}
        for number, step in enumerate(steps):
            if writes(step) and id(step) not in self._over:
                (result,) = step.results
                root, shape = self._roots[id(result)], self._shape(result)
                n_bytes = int(np.prod(shape, dtype=np.int64)) * result.dtype.itemsize
                if n_bytes >= _SMALL and shape:
                    if root in leaving or root in held:
                        if isinstance(step, Compute):  # moves make such arrays themselves
                            self._kept[id(step)] = "new"
                    else:
                        found = free.get(n_bytes)
                        memory = found.pop() if found else self._grid.allocate((n_bytes,), np.uint8)
                        held[root] = memory
                        ends.setdefault(self._death(root), []).append(root)
                        self._kept[id(step)] = memory.view(result.dtype).reshape(shape)
            for root in ends.pop(number, ()):
                memory = held.pop(root)
                free.setdefault(memory.nbytes, []).append(memory)


def _last_uses(schedule: Schedule) -> dict[int, float]:
    """For each value (by identity), the last step that makes or reads it; no end for results."""
    last: dict[int, float] = {}
    for number, step in enumerate(schedule.steps):
        for each in (*step.inputs, *step.results):
            last[id(each)] = number
    return last | {id(each): inf for each in schedule.results if isinstance(each, LocalValue)}
