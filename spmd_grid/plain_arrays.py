"""The check that an array given as a plain one means no more than its cells: a masked array also says which count."""

from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError

__all__ = ["check_plain", "is_plain"]

# Classes of numpy's whose functions and operators are those of its plain arrays.
_PLAIN = (np.ndarray, np.memmap, np.recarray)
_DEEPEST = 64  # numpy's limit of dimensions


def is_plain(x: object) -> bool:
    """Whether ``x`` is a numpy array that means no more than its cells.  Local."""
    return type(x) in _PLAIN


def check_plain(op: str, what: str, x: Any, depth: int = 0) -> None:
    """Refuse an array that means more than its cells, also one in a list.  Local.  Raises DTypeError.

    >>> check_plain("add", "an operand", [np.arange(3), 1.0])
    >>> check_plain("add", "an operand", np.ma.masked_array([1, 2], [True, False]))
    Traceback (most recent call last):
    ...
    spmd_grid.errors.DTypeError: add: an operand is a masked array, whose mask would be lost; pass its .filled(...)
    """
    if isinstance(x, np.ndarray):
        if type(x) not in _PLAIN:
            raise DTypeError(f"{op}: {what} is {_meaning(x)}")
    elif isinstance(x, list | tuple):
        if depth == _DEEPEST:
            raise DTypeError(f"{op}: {what} is a list that is nested more than {_DEEPEST} deep")
        for each in x:
            if isinstance(each, np.ndarray | list | tuple):
                check_plain(op, f"an entry of {what.removeprefix('an entry of ')}", each, depth + 1)


def _meaning(x: np.ndarray) -> str:
    if isinstance(x, np.ma.MaskedArray):
        return "a masked array, whose mask would be lost; pass its .filled(...)"
    if isinstance(x, np.matrix):
        return "an np.matrix, whose products are others than those of arrays; pass np.asarray of it"
    return f"a {type(x).__name__}, which may mean more than its cells; pass np.asarray of it"
