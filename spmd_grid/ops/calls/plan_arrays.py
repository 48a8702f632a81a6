"""Checks of the arrays of plans, which are all of one shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.typing import Shape

__all__ = ["check_array", "checked_kind"]


def check_array(op: str, x: Any, shape: Shape | None, dtype: np.dtype | None) -> None:
    """Refuse an array that is not of the plan's shape and dtype."""
    if x is None:
        raise DTypeError(f"{op}: x is None; this process must pass an array")
    given = np.asarray(x)
    if given.shape != shape:
        raise ShapeError(f"{op}: x has shape {given.shape}; the plan is for {shape}")
    if given.dtype != dtype:
        raise DTypeError(f"{op}: x has dtype {given.dtype}; the plan is for {dtype}")


def checked_kind(op: str, shape: Sequence[int] | None, dtype: np.typing.DTypeLike | None) -> tuple[Shape, np.dtype]:
    """Check and normalise the shape and dtype of a plan's arrays."""
    try:
        template = np.empty(0, dtype)
        extents = np.broadcast_to(np.empty(()), shape).shape  # type: ignore[arg-type]  # None is refused here
    except TypeError as error:
        raise DTypeError(f"{op}.plan: shape={shape!r}, dtype={dtype!r}; {error}") from None
    except ValueError as error:
        raise ShapeError(f"{op}.plan: shape={shape!r}; it must list extents from 0: {error}") from None
    if dtype is None or template.dtype.hasobject:
        raise DTypeError(f"{op}.plan: dtype={dtype!r}; it must be a fixed-size dtype")
    return extents, template.dtype
