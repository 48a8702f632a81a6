"""Arrays that grow at their borders, or cell by cell: pad and repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.compute.cores import core_in, member_rows
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.functions.joining import new_like
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.errors import ArgumentError, ShapeError
from spmd_grid.functions.axes import as_row, cut, laid_along, one_axis
from spmd_grid.functions.table import Operand, call, composite
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding

__all__: list[str] = []

_COPYING = ("edge", "reflect", "symmetric", "wrap")  # modes that repeat cells of the array


@composite(np.pad)
def pad(
    array: Operand, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, end_values: Any = 0
) -> Operand:
    """np.pad by numbers, by copies of cells, or by ramps."""
    if mode not in ("constant", "linear_ramp", *_COPYING):
        raise NotImplementedError(f"pad with mode={mode!r}" if isinstance(mode, str) else "pad by a function")
    found = np.asarray(pad_width)
    if found.dtype.kind not in "iu" or (found.size and found.min() < 0):
        raise ShapeError(f"pad: pad_width is {pad_width!r}; it must consist of numbers that are not negative")
    widths = np.broadcast_to(found, (array.ndim, 2)).tolist()
    if mode in _COPYING and any(n == 0 and any(width) for n, width in zip(array.shape, widths)):
        raise ArgumentError(f"pad: an empty dimension cannot be extended with mode={mode!r}")
    values = np.broadcast_to(np.asarray(constant_values if mode == "constant" else end_values), (array.ndim, 2))
    result = call(new_like, array, tuple([low + n + high for n, (low, high) in zip(array.shape, widths)]), array.dtype)
    result[tuple([slice(low, low + n) for n, (low, _) in zip(array.shape, widths)])] = array
    for d, (low, high) in enumerate(widths):
        n = array.shape[d]
        if mode == "constant":
            for border, value in zip((cut(d, 0, low), cut(d, low + n, None)), values[d]):
                result[border] = value
        elif mode == "linear_ramp":
            _ramp(result, d, low, high, values[d])
        else:
            for start, width in ((0, low), (low + n, high)):
                _copy_cells(result, d, start, low + _sources(mode, np.arange(start, start + width) - low, n))
    return result


def _sources(mode: str, cells: np.ndarray, n: int) -> np.ndarray:
    """The cells of an array of ``n`` that numpy copies to ``cells`` outside."""
    if mode == "edge" or n == 1:
        return np.clip(cells, 0, n - 1)
    if mode == "wrap":
        return cells % n
    period = 2 * n if mode == "symmetric" else 2 * n - 2
    within = cells % period
    return np.where(within < n, within, (period - 1 if mode == "symmetric" else period) - within)


def _copy_cells(result: Operand, d: int, start: int, sources: np.ndarray) -> None:
    """Fill cells of a dimension from others; cells whose ``sources`` follow one another are copied at once."""
    at = 0
    while at < len(sources):
        stop = at + 1
        step = int(sources[stop] - sources[at]) if stop < len(sources) else 0
        while abs(step) <= 1 and stop < len(sources) and sources[stop] - sources[stop - 1] == step:
            stop += 1
        low, high = sorted((int(sources[at]), int(sources[stop - 1])))
        cells = result[cut(d, low, high + 1)]
        result[cut(d, start + at, start + stop)] = np.flip(cells, d) if step < 0 else cells
        at = stop


def _ramp(result: Operand, d: int, low: int, high: int, ends: np.ndarray) -> None:
    """Fill the borders of a dimension by straight lines from the cells at the edges to ``ends``."""
    extent = result.shape[d]
    for width, edge, border, end, steps in (
        (low, low, cut(d, 0, low), ends[0], np.arange(low)),
        (high, extent - high - 1, cut(d, extent - high, None), ends[1], np.arange(high)[::-1]),
    ):
        if width:
            line = end + laid_along(steps, d, result.ndim) * ((result[cut(d, edge, edge + 1)] - end) / width)
            result[border] = np.floor(line) if result.dtype.kind in "iu" else line


@composite(np.repeat)
def repeat(a: Operand, repeats: ArrayLike, axis: int | None = None) -> Operand:
    """np.repeat; each process repeats its own cells, and the result is cut where they are."""
    if is_sharded(repeats):
        return _repeat_by_sharded(a, repeats, axis)
    a, axis = (np.ravel(a), 0) if axis is None else (as_row(a, axis), axis)
    d, times = one_axis("repeat", axis, a.ndim), np.asarray(repeats)
    if times.dtype.kind not in "iu" or times.ndim > 1 or (times.ndim and len(times) not in (1, a.shape[d])):
        raise ShapeError(f"repeat: repeats is {repeats!r}; it must be a number, or one for each of {a.shape[d]} cells")
    if times.size and times.min() < 0:
        raise ArgumentError(f"repeat: repeats is {repeats!r}; it must not be negative")
    if times.size == 1:
        return _repeat_evenly(a, int(times.reshape(())), d)
    return a.grid.process.gate.run("repeat", _repeat, a, times, d)


def _repeat_evenly(a: Operand, n: int, d: int) -> Operand:
    result = call(new_like, a, tuple([extent * n if i == d else extent for i, extent in enumerate(a.shape)]), a.dtype)
    for i in range(n):
        result[cut(d, i, None, n)] = a
    return result


def _repeat(a: ArrayOnGrid, times: np.ndarray, d: int) -> Any:
    sharding = plain_sharding(a.sharding)
    box = Layout(sharding, a.shape).core_box(a.grid.own_coords)
    before = np.concatenate([[0], np.cumsum(times)])
    starts = before[list(block_starts(sharding, d, a.shape[d]))]
    return _repeated(a, times[box.starts[d] : box.stops[d]], starts.tolist(), d)


def _repeat_by_sharded(a: Operand, repeats: ArrayOnGrid, axis: int | None) -> Any:
    """np.repeat, of which each process needs the numbers for its own cells; numbers of cells are gathered."""
    if not hasattr(a, "sharding"):
        raise NotImplementedError("repeat of a plain array by a sharded list")
    if axis is None:
        a, axis = np.ravel(a), 0
    d = one_axis("repeat", axis, a.ndim)
    if repeats.dtype.kind not in "iu" or repeats.shape != (a.shape[d],):
        raise ShapeError(
            f"repeat: repeats has shape {repeats.shape} and dtype {repeats.dtype}; it must have a whole number for each"
            f" of {a.shape[d]} cells"
        )
    least: Any = repeats
    if a.shape[d] and np.min(least) < 0:
        raise ArgumentError("repeat: repeats has a negative number; none may be")
    a.grid.check_same_program(repeats.grid, "repeat")
    return a.grid.process.gate.run("repeat", _repeat_own, a, repeats, d)


def _repeat_own(a: ArrayOnGrid, repeats: ArrayOnGrid, d: int) -> Any:
    sharding = plain_sharding(a.sharding)
    cut_alike = Sharding(
        sharding.grid,
        [sharding.axes_of(d)],
        sharded_dims_offsets=[block_starts(sharding, d, a.shape[d])] if sharding.axes_of(d) else None,
    )
    own = core_in(repeats, cut_alike)
    axes = tuple([axis for axis in sharding.axes_of(d) if a.grid.shape[axis] > 1])
    counts = member_rows(np.array([own.sum(dtype=np.int64)]), a.grid, axes)[:, 0]
    return _repeated(a, own, [0, *np.cumsum(counts).tolist()], d)


def _repeated(a: ArrayOnGrid, times: np.ndarray, starts: list[int], d: int) -> Any:
    """The cells of this process, repeated; ``starts``: where the blocks along dimension ``d`` of the result start."""
    sharding = plain_sharding(a.sharding)
    block = np.repeat(core_in(a, sharding), times, d)
    offsets = [starts if dim == d else block_starts(sharding, dim, a.shape[dim]) for dim in sharding.sharded_dims]
    cut_where_they_are = Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets or None)
    shape = tuple([starts[-1] if i == d else n for i, n in enumerate(a.shape)])
    return sharded_like(a, block, Layout(cut_where_they_are, shape), (a.stored,))
