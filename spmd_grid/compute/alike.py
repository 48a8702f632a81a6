"""The short way of functions on arrays of one layout: cell by cell, on each process alone, with no message."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from spmd_grid.compute.splits import plain_sharding
from spmd_grid.grid.layout import Layout

__all__ = ["on_equal_layouts"]

_NUMBERS = frozenset((int, float, complex, bool))
_result_dtypes: dict[tuple, np.dtype | None] = {}


def on_equal_layouts(ufunc: np.ufunc, array: Any, inputs: tuple) -> Any:
    """``ufunc(*inputs)`` where they are arrays of the layout of ``array``, and numbers; else None.  Local.

    The result's memory comes from the arena, where memory that was freed is used again before new one is touched.
    """
    layout, grid = array._layout, array._grid
    kind = type(array)
    key: list[Any] = [ufunc]
    blocks = []
    for x in inputs:
        if type(x) is kind:
            if (x._layout is not layout and x._layout != layout) or x._grid is not grid:
                return None
            blocks.append(x._local)
            key.append(x._local.dtype)
        elif type(x) in _NUMBERS:
            blocks.append(x)
            key.append(type(x))
        else:
            return None
    sharding = layout.sharding
    if sharding.partial_axes or ufunc.nout != 1:
        return None
    dtype = _result_dtypes.get(tuple(key))
    if dtype is None:
        dtype = _resolved(ufunc, key)
        if dtype is None:
            return None
    if sharding.halo_sizes is not None:
        core = layout.core_in_local(grid.coords).slices()
        blocks = [block[core] if type(block) is np.ndarray else block for block in blocks]
        layout = _without_halos(layout)
    result = grid.allocate(next(block.shape for block in blocks if type(block) is np.ndarray), dtype)
    ufunc(*blocks, out=result)
    return kind(result, layout, grid)


def _resolved(ufunc: np.ufunc, key: list) -> np.dtype | None:
    """The element type of the result; None where the longer way is to refuse it."""
    if ufunc.signature is not None:
        return None
    try:
        dtype = ufunc.resolve_dtypes((*[np.dtype(each) if each is bool else each for each in key[1:]], None))[-1]
    except TypeError:
        return None
    _result_dtypes[tuple(key)] = dtype
    return dtype


@lru_cache(1024)
def _without_halos(layout: Layout) -> Layout:
    return Layout(plain_sharding(layout.sharding), layout.global_shape)
