"""Values of a run beside numpy's: results that are undefined, and arrays that repeat one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from spmd_grid.dialect.execute.reading import dtype_of, is_shaped, shape_of
from spmd_grid.dialect.syntax.encodings import is_encoded
from spmd_grid.dialect.syntax.other_dialects.tosa import ShapeType

__all__ = ["Undefined", "misfit", "one_number", "repeated"]


@dataclass(frozen=True)
class Undefined:
    """The result of an operation on devices where the dialect defines none, such as a gather's off the root.

    What is computed from it is undefined as well; communication refuses it.
    """

    reason: str

    def __str__(self) -> str:
        return f"undefined: {self.reason}"


def repeated(number: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that repeats one number without memory; read-only."""
    return np.broadcast_to(np.asarray(number).astype(dtype), shape)


def one_number(x: Any) -> Any:
    """The number that an array repeats, as a scalar; None for others."""
    if isinstance(x, np.ndarray) and x.ndim and x.size and not any(x.strides):
        return x[(0,) * x.ndim]
    return None


def misfit(value: Any, kind: Attribute) -> str:
    """The way in which a value is not of the type; "" where it is."""
    if isinstance(value, Undefined) or isinstance(kind, ShapeType):
        return ""
    if not is_shaped(kind):
        return "" if not getattr(value, "shape", ()) else f"is an array of shape {value.shape}"
    if not hasattr(value, "shape"):
        return f"is {value!r}"
    due = shape_of(kind) if not is_encoded(kind) else (None,) * len(shape_of(kind))  # blocks of it
    if len(value.shape) != len(due) or any(n is not None and n != m for n, m in zip(due, value.shape)):
        return f"has shape {value.shape}"
    return "" if value.dtype == dtype_of(kind) else f"has element type {value.dtype}"
