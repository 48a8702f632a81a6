"""The serial meaning of a function, and the comparison of a run with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.dialect.execute.faults import CheckError
from spmd_grid.dialect.execute.values import Undefined

__all__ = ["compared"]


def compared(title: str, found: Any, serial: Any) -> str:
    """The way in which a result agrees with the serial one, in words.  Raises CheckError where it does not.

    Integers must be equal.  Floating-point numbers may differ by rounding, as sums have another order: by the machine's
    precision to the power of 3/4, relative to the largest serial number.
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
    if one.dtype.kind in "biu":
        wrong = one != other
        if not wrong.any():
            return "equal"
        raise CheckError(_differing(title, one, other, wrong))
    with np.errstate(all="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        if same.all():
            return "equal"
        gap = np.abs(np.where(same, 0, one - other))
        finite = np.abs(other[np.isfinite(other)])
        scale = float(finite.max()) if finite.size else 0.0
        allowed = float(np.finfo(one.dtype).eps) ** 0.75 * scale
        wrong = ~same & ~(gap <= allowed)
    if wrong.any():
        raise CheckError(_differing(title, one, other, wrong))
    return f"equal but for rounding: at most {float(gap.max()):.3g} apart, {allowed:.3g} allowed"


def _differing(title: str, one: np.ndarray, other: np.ndarray, wrong: np.ndarray) -> str:
    at = tuple([int(n) for n in np.argwhere(wrong)[0]])
    return (
        f"{title} differs from the serial run in {int(wrong.sum())} of {wrong.size} cells: cell {at} is {one[at]}, and"
        f" {other[at]} serially"
    )
