"""The short way of functions on arrays of one layout: cell by cell, on each process alone, with no message."""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.compute.memory import ALONE
from spmd_grid.compute.splits import plain_layout
from spmd_grid.compute.temporaries import Site
from spmd_grid.compute.views import bring_up_to_date
from spmd_grid.functions.elementwise import may_raise
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["again", "on_equal_layouts"]

_MOST_KEPT = 4096
_MOST_SITES = 256  # that have kept results
_MOST_KEPT_BYTES = 1 << 16  # of a result: to make larger ones takes little of their time
_DOUBLE = np.dtype(float)
_NUMBERS = frozenset((int, float, complex, bool))
_result_dtypes: dict[tuple[Any, ...], np.dtype] = {}
# By ufunc of two operands, the layout of the arrays among them, and what stands for each in `_result_dtypes`: those
# that have been computed on local arrays without halos.
_known: dict[tuple[Any, ...], np.dtype] = {}


def again(ufunc: np.ufunc, array: Any, x: Any, y: Any) -> Any:
    """`on_equal_layouts` of two operands, in short, where it has found the same before; else None.  Local.

    One of ``x`` and ``y`` is ``array``.
    """
    layout, grid, kind = array._layout, array._grid, type(array)
    if type(x) is kind and x._view is not None:
        bring_up_to_date(x)
    if type(y) is kind and y._view is not None:
        bring_up_to_date(y)
    if type(x) is not kind:
        a, b = x, y._local
        local, found = b, _known.get((ufunc, layout, type(x), b.dtype))
    elif type(y) is not kind:
        a, b = x._local, y
        local, found = a, _known.get((ufunc, layout, a.dtype, type(y)))
    elif x._layout is y._layout and x._grid is y._grid:
        local = a = x._local
        b = y._local
        found = _known.get((ufunc, layout, a.dtype, b.dtype))
    else:
        return None
    if found is None:
        return None
    block = _new(grid, local, found)
    ufunc(a, b, block)
    return kind(block, layout, grid)


def _new(grid: ProcessGrid, local: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array of the shape of another, as `ProcessGrid.allocate` makes it, in short."""
    memory = grid.process.arena.allocate(local.size * dtype.itemsize)
    return np.empty(local.shape, dtype) if memory is None else np.ndarray(local.shape, dtype, memory)


def first_of_site(ufunc: np.ufunc, site: Site, array: Any, inputs: tuple[Any, Any]) -> Any:
    """`on_equal_layouts`, of an operator in an expression, which may get operands that look the same again.  Local.

    The operator itself then knows (``site.known``) the layout, what stands for each operand, and the dtype.
    """
    found = on_equal_layouts(ufunc, array, inputs)
    if found is not None:
        kinds = [x._local.dtype if type(x) is type(array) else type(x) for x in inputs]
        dtype = _known.get((ufunc, array._layout, *kinds))
        if dtype is not None:
            site.known = array._layout, *kinds, dtype, _run_of(ufunc, kinds, array._local)
    return found


def _run_of(ufunc: np.ufunc, kinds: list[Any], local: np.ndarray) -> Callable[..., Any]:
    """``ufunc``, or a function that takes less time for small blocks of doubles."""
    if local.nbytes > _MOST_KEPT_BYTES or any(kind not in (_DOUBLE, float) for kind in kinds):
        return ufunc
    left, right = ["number" if kind is float else "block" for kind in kinds]
    return kernels.arithmetic(ufunc, "blocks" if left == right else f"{left} and {right}")


def kept_result(array: Any, local: np.ndarray, site: Site, dtype: np.dtype) -> Any:
    """An array for the result of an operator: a small one that it has left before, where nothing reads it any more.

    Local.  Two are kept, for programs in which the last result is an operand of the next.
    """
    layout, grid = array._layout, array._grid
    kept = grid.results.get(site)
    if kept is None:
        if local.size * dtype.itemsize > _MOST_KEPT_BYTES:
            return type(array)(_new(grid, local, dtype), layout, grid)
        if len(grid.results) >= _MOST_SITES:
            grid.forget_results()
        kept = grid.results[site] = []
    for found in kept:
        # Another thread that has found it refers to it as well.
        if (
            getrefcount(found) == ALONE
            and found._layout is layout
            and found._local.dtype is dtype
            and not found._was_seen
            and (found._twin is None or found.is_alone)
        ):
            found._version += 1
            found._refreshed, found.name = 0, None
            return found
    found = type(array)(_new(grid, local, dtype), layout, grid)
    if found._local.nbytes <= _MOST_KEPT_BYTES:
        found.is_kept = True
        for each in kept[:-1]:
            each.is_kept = False
        kept[:] = [*kept[-1:], found]
    return found


def on_equal_layouts(ufunc: np.ufunc, array: Any, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """``ufunc(*inputs)`` where they are arrays of the layout of ``array``, and numbers; else None.  Local.

    ``out``: an array of the same layout, or None for a new one.  That one's memory comes from the arena, where memory
    that was freed is used again before new one is touched.
    """
    layout, grid = array._layout, array._grid
    kind = type(array)
    key: list[Any] = [ufunc]
    blocks = []
    shape = None
    for x in inputs:
        if type(x) is kind:
            if x._layout is not layout or x._grid is not grid:
                if x._layout != layout or x._grid is not grid:
                    return None
                x._layout = layout  # so that the next look is a short one
            block = x.stored
            shape = block.shape
            blocks.append(block)
            key.append(block.dtype)
        elif type(x) in _NUMBERS:
            blocks.append(x)
            key.append(type(x))
        elif isinstance(x, np.generic):
            blocks.append(x)
            key.append(x.dtype)
        else:
            return None
    sharding = layout.sharding
    if shape is None or sharding.partial_axes or ufunc.nout != 1:
        return None
    dtype = _result_dtypes.get(tuple(key))
    if dtype is None:
        dtype = _resolved(ufunc, key)
        if dtype is None:
            return None
    if out is not None:
        return _into(out, ufunc, blocks, array, dtype)
    if sharding.halo_sizes is not None:
        core = layout.core_key(grid.own_coords)
        blocks = [block[core] if type(block) is np.ndarray else block for block in blocks]
        shape = next(block.shape for block in blocks if type(block) is np.ndarray)
        layout = plain_layout(layout)
    elif len(blocks) == 2 and dtype.itemsize and not any(isinstance(x, np.generic) for x in inputs):
        if len(_known) >= _MOST_KEPT:
            _known.clear()
        _known[(ufunc, layout, *key[1:])] = dtype
    result = grid.allocate(shape, dtype)
    ufunc(*blocks, out=result)
    return kind(result, layout, grid)


def _into(out: Any, ufunc: np.ufunc, blocks: list[Any], array: Any, dtype: np.dtype) -> Any:
    """``out`` with the result; None where the longer way is to refuse it, or to bring it to another layout."""
    layout, grid = array._layout, array._grid
    if type(out) is not type(array) or out._layout != layout or out._grid is not grid:
        return None
    if not out.is_writeable or not np.can_cast(dtype, out._local.dtype, "same_kind"):
        return None
    target = out.memory_to_overwrite()
    if layout.sharding.halo_sizes is not None:
        core = layout.core_key(grid.own_coords)
        target = target[core]
        blocks = [block[core] if type(block) is np.ndarray else block for block in blocks]
    ufunc(*blocks, out=target)
    out.mark_dirty()
    return out


def _resolved(ufunc: np.ufunc, key: list[Any]) -> np.dtype | None:
    """The element type of the result; None where the longer way is to refuse it."""
    if ufunc.signature is not None or may_raise(ufunc, key[1:]):
        return None
    try:
        dtype = ufunc.resolve_dtypes((*[np.dtype(each) if each is bool else each for each in key[1:]], None))[-1]
    except TypeError:
        return None
    if dtype.hasobject:
        return None
    _result_dtypes[tuple(key)] = dtype
    return dtype
