"""The serial meaning of a function, and the comparison of a run with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from spmd_grid.dialect.execute.faults import CheckError
from spmd_grid.dialect.execute.reading import dtype_of, in_wider_dtypes, is_shaped, shape_of
from spmd_grid.dialect.execute.values import Undefined
from spmd_grid.errors import SpmdError

__all__ = ["SerialRun", "compared", "most_cells"]


class SerialRun:
    """The serial run of a function, and the same with more digits than the text says where that must decide.

    ``run(typed)`` runs it; ``typed`` casts an argument to a type of the text.  ``cells``: those of the largest array.
    """

    def __init__(self, run: Callable[[Callable[[Any, Attribute], Any]], list[Any]], cells: int):
        self._run, self._cells = run, cells

    def compared(self, title: str, found: Any, pick: Callable[[list[Any]], Any]) -> str:
        """As `compared`, with what ``pick`` takes from the serial results."""

        def wide() -> Any:
            return None if self._wide is None else pick(self._wide)

        return compared(title, found, pick(self._results), wide, self._cells)

    @cached_property
    def _results(self) -> list[Any]:
        return self._run(lambda x, kind: x)

    @cached_property
    def _wide(self) -> list[Any] | None:
        def typed(x: Any, kind: Attribute) -> Any:
            return x.astype(dtype_of(kind), copy=False) if hasattr(x, "astype") else x

        try:
            with in_wider_dtypes():
                return self._run(typed)
        except SpmdError:  # of operations on the bits of a number, for one
            return None


def most_cells(module: ModuleOp, arguments: Sequence[Any], devices: int = 1) -> int:
    """The number of cells of the largest array of a module and of the arguments of its functions, on all devices."""
    kinds = [x.type for op in module.walk() for x in (*op.results, *op.operands)]
    known = [math.prod(n for n in shape_of(kind) if n is not None) for kind in kinds if is_shaped(kind)]
    return devices * max([np.size(x) for x in arguments] + known, default=1)


def compared(title: str, found: Any, serial: Any, wide: Callable[[], Any] | None = None, cells: int = 1) -> str:
    """The way in which a result agrees with the serial one, in words.  Raises CheckError where it does not.

    Integers must be equal.  Floating-point numbers may differ by rounding, as sums have another order.  A sum of n
    numbers, two by two, rounds each log2 n times; so results within that many units in the last place of the largest
    number agree, where ``cells``, those of the largest array, stand for n.  Errors of a long computation grow beyond
    that, and those of the serial run as much: others must be as near to ``wide()``, the serial run with more digits, as
    that many times the error of the serial run itself, if half of the digits at least are right in that.
    """
    if isinstance(found, Undefined) or isinstance(serial, Undefined):
        if isinstance(found, Undefined) and isinstance(serial, Undefined):
            return "undefined, as serially"
        raise CheckError(f"{title} is {found}, and {serial} serially")
    one, other = np.asarray(found), np.asarray(serial)
    if one.shape != other.shape or one.dtype != other.dtype:
        raise CheckError(
            f"{title} has shape {one.shape} and element type {one.dtype}; serially {other.shape} and {other.dtype}"
        )
    if one.dtype.hasobject:  # no array, but a sharding
        if found == serial:
            return "equal"
        raise CheckError(f"{title} is {found}, and {serial} serially")
    if one.dtype.kind in "biumMUS":
        wrong = one != other
        if not wrong.any():
            return "equal"
        raise CheckError(_differing(title, one, other, wrong))
    with np.errstate(all="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        if same.all():
            return "equal"
        precision, roundings = _precision(one.dtype), 1 + math.ceil(math.log2(max(cells, one.size, 2)))
        due, allowed = other, roundings * precision * _largest(other)
        gap = _gap(one, due, same)
        exact = None if wide is None or (gap <= allowed).all() else wide()
        if exact is not None:
            due = np.asarray(exact)
            error = float(np.max(_gap(other, due, ~np.isfinite(other)), initial=0.0))
            allowed += roundings * min(error, math.sqrt(precision) * _largest(other))
            gap = _gap(one, due, same)
        wrong = ~(gap <= allowed)
    if wrong.any():
        raise CheckError(_differing(title, one, other, wrong))
    return f"equal but for rounding: at most {float(gap.max()):.3g} apart, {allowed:.3g} allowed"


def _precision(dtype: np.dtype) -> float:
    """The distance from 1 to the next number of a floating-point dtype, extension types included."""
    step = 1.0
    while np.asarray(1 + step / 2).astype(dtype) != 1:
        step /= 2
    return step


def _largest(x: np.ndarray) -> float:
    """The largest absolute value among the cells that are finite."""
    return float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0))


def _gap(one: np.ndarray, other: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """The distance of each pair of cells, 0 for those that are left out."""
    wide = np.dtype("G" if one.dtype.kind == "c" else "g")
    return np.abs(np.where(left_out, 0, one.astype(wide) - other.astype(wide)))


def _differing(title: str, one: np.ndarray, other: np.ndarray, wrong: np.ndarray) -> str:
    at = tuple([int(n) for n in np.argwhere(wrong)[0]])
    return (
        f"{title} differs from the serial run in {int(wrong.sum())} of {wrong.size} cells: cell {at} is {one[at]}, and"
        f" {other[at]} serially"
    )
