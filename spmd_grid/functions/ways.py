"""Ways from an array to its views, and back: those of the functions that give views in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import BoundArguments
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import OutputError
from spmd_grid.functions.table import Entry, Operand
from spmd_grid.typing import Shape

__all__ = [
    "VIEWS",
    "OneWay",
    "READ_ONLY",
    "Rearranged",
    "Sliced",
    "cells_as_numpy_has_them",
    "read_only",
    "read_only_way",
    "reshape_steps",
]

# Composites whose results are views in numpy as well; of all others they are new arrays.
VIEWS = frozenset(
    (
        *("array_split", "split", "hsplit", "vsplit", "dsplit", "unstack", "swapaxes", "moveaxis", "rollaxis"),
        *("matrix_transpose", "reshape", "ravel", "flip", "flipud", "fliplr", "rot90", "atleast_1d", "atleast_2d"),
        *("atleast_3d", "broadcast_arrays", "trim_zeros", "real_if_close"),
    )
)
# Those whose results are read-only views of matrices.
READ_ONLY = frozenset(("diagonal", "diag"))
_PLAIN = int, slice, NoneType, EllipsisType


def cells_as_numpy_has_them(source: Any, steps: Sequence[Any], first: np.ndarray | None = None) -> np.ndarray | None:
    """An array of numpy with the strides of a view by ``steps`` of ``source``, or of ``first``; no cell may be read.

    Local.  None for views that are read-only.
    """
    found: Any = first
    if first is None:
        shape, cell = source.shape, np.empty(1, source.dtype)
        strides = np.cumprod((cell.itemsize, *shape[:0:-1]))[::-1] if shape else ()
        found = np.lib.stride_tricks.as_strided(cell, shape, strides)
    for step in steps:
        if isinstance(step, OneWay):
            return None
        found = step.read(found)
    return found


def reshape_steps(cells: np.ndarray | None, shape: Shape) -> tuple[Rearranged, ...]:
    """The way to a reshaped array of such ``cells``; none where numpy copies them.  Local."""
    if cells is None:
        return ()
    try:
        cells.reshape(shape, copy=False)
    except ValueError:
        return ()
    return (Rearranged(partial(_reshaped, shape=shape), partial(_reshaped, shape=cells.shape)),)


def _reshaped(x: Any, shape: Shape) -> Any:
    return x.reshape(shape, copy=False) if isinstance(x, np.ndarray) else np.reshape(x, shape)


def read_only_way(entry: Entry, bound: BoundArguments) -> OneWay:
    """The way of a function of `READ_ONLY` from its first argument.  Local."""
    _, *others = bound.arguments.items()
    return OneWay(partial(entry.call, **dict(others)))


def read_only(op: str) -> str:
    """The text of the error of a write to a read-only view."""
    return f"{op}: the array is a read-only view of another; it must be writeable: write to that one, or to a copy()"


class Sliced(NamedTuple):
    """``source[key]``."""

    key: Any

    def has_key(self, key: Any) -> bool:
        """Whether ``key`` is equal; keys with arrays are not compared.  Local."""
        parts, others = (each if type(each) is tuple else (each,) for each in (self.key, key))
        return all(type(each) in _PLAIN for each in others) and parts == others

    def read(self, source: Operand) -> Operand:
        """The slice.  Collective."""
        return source[self.key]

    def write(self, source: Operand, view: Operand) -> None:
        """Put a slice back.  Collective."""
        source[self.key] = view

    def inverse(self) -> None:
        """A slice leaves cells out."""
        return None


class Rearranged(NamedTuple):
    """All cells of the source in another order or shape: ``there(source)``, of which ``back`` is the inverse."""

    there: Callable[[Any], Any]
    back: Callable[[Any], Any]

    def read(self, source: Operand) -> Operand:
        """The rearranged array.  Collective."""
        return self.there(source)

    def write(self, source: Operand, view: Operand) -> None:
        """Write all cells of the source.  Collective."""
        source[...] = self.back(view)

    def inverse(self) -> Rearranged:
        """The way back."""
        return Rearranged(self.back, self.there)


class OneWay(NamedTuple):
    """A view that is read-only in numpy too."""

    there: Callable[[Any], Any]

    def read(self, source: Operand) -> Operand:
        """The view.  Collective."""
        return self.there(source)

    def write(self, source: Operand, view: Operand) -> None:
        """Refused, as all writes to such a view are before they come here."""
        raise OutputError(read_only("write"))

    def inverse(self) -> None:
        """There is none."""
        return None
