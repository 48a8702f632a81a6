"""The check that an array given as a plain one means no more than its cells: a masked array also says which count."""

from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError

__all__ = ["check_plain"]

_DEEPEST = 64  # numpy's limit of dimensions


def check_plain(op: str, what: str, x: Any, *, computes: bool = False, depth: int = 0) -> None:
    """Refuse an array that means more than its cells, also one in a list.  Local.  Raises DTypeError.

    ``computes``: whether ``op`` computes.  An np.matrix can be moved, but its products are not those of arrays.

    >>> check_plain("add", "x", [np.arange(3), 1.0])
    >>> check_plain("add", "x", np.ma.masked_array([1, 2], [True, False]))
    Traceback (most recent call last):
    ...
    spmd_grid.errors.DTypeError: add: x is a masked array, whose mask would be lost; pass its .filled(...)
    """
    if isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray):
            raise DTypeError(f"{op}: {what} is a masked array, whose mask would be lost; pass its .filled(...)")
        if computes and isinstance(x, np.matrix):
            raise DTypeError(f"{op}: {what} is an np.matrix, whose products are not those of arrays; pass its .A")
    elif isinstance(x, list | tuple):
        if depth == _DEEPEST:
            raise DTypeError(f"{op}: {what} is nested more than {_DEEPEST} deep")
        inner = (np.ndarray, list, tuple)
        if not any(issubclass(kind, inner) for kind in {*map(type, x)}):  # one look at each class, not at each entry
            return
        for each in x:
            if isinstance(each, inner):
                entry = what if depth else f"an entry of {what}"
                check_plain(op, entry, each, computes=computes, depth=depth + 1)
