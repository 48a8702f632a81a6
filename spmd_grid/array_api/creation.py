"""Creation functions of the array API; every process makes the cells that it holds."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array import constructors
from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_sharded, check_device
from spmd_grid.array_api.defaults import ShardingRule, sharding_and_grid
from spmd_grid.compute.indexing.selection import number_of
from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.plain_arrays import check_plain
from spmd_grid.typing import Shape

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

# numpy's annotations know no arrays but numpy's.
_np: Any = np

# What every constructor takes besides the standard's arguments.
Rule = ShardingRule | None
Grid = ProcessGrid | None


def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    copy: bool | None = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array with the cells of ``obj``: numbers, nested lists or an array, equal on all processes.

    Collective over the grid.  A ShardedArray is taken as it is, unless ``dtype``, ``sharding`` or ``copy`` ask for
    another one.  Raises ValueError for ``copy=False`` where a copy is needed.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     return sg.array_api.asarray([1, 2, 3], sharding=sg.Sharding(grid, [[0]]), grid=grid).local.tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[1, 2], [3]]
    """
    check_device("asarray", device)
    if isinstance(obj, ShardedArray):
        return _again(obj, dtype, copy, sharding, grid)
    if copy is False:
        raise ValueError("asarray: copy is False; a sharded array of plain numbers needs memory of its own")
    check_plain("asarray", "obj", obj)
    values = np.asarray(obj) if dtype is None else np.asarray(obj, np.dtype(dtype))
    return ShardedArray.from_global(values, *sharding_and_grid("asarray", values.shape, sharding, grid))


def _again(x: ShardedArray, dtype: DTypeLike | None, copy: bool | None, sharding: Rule, grid: Grid) -> ShardedArray:
    """``x`` in another element type and sharding, if they are asked for."""
    target = (
        sharding_and_grid("asarray", x.shape, sharding, grid, x) if sharding is not None or grid is not None else None
    )
    changes = (dtype is not None and np.dtype(dtype) != x.dtype) or (target is not None and target[0] != x.sharding)
    if changes and copy is False:
        raise ValueError("asarray: copy is False; another dtype or sharding needs memory of its own")
    if not changes:
        return _np.copy(x) if copy else x
    if dtype is not None:
        x = x.astype(dtype)
    return x if target is None else x.reshard(*target)  # type: ignore[return-value]  # this process is in the grid


def from_dlpack(
    x: Any, /, *, device: Any = None, copy: bool | None = None, sharding: Rule = None, grid: Grid = None
) -> ShardedArray:
    """A sharded array with the cells of an object that has ``__dlpack__``, equal on all processes; as `asarray`.

    Collective over the grid.
    """
    plain = x if isinstance(x, ShardedArray) else np.from_dlpack(x)
    return asarray(plain, device=device, copy=copy, sharding=sharding, grid=grid)


def empty(
    shape: int | Shape,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array whose cells are not initialised.  Local, called by every process."""
    check_device("empty", device)
    extents = _extents(shape)
    return constructors.empty(extents, *sharding_and_grid("empty", extents, sharding, grid), dtype or "f8")


def zeros(
    shape: int | Shape,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array of zeros.  Local, called by every process."""
    check_device("zeros", device)
    extents = _extents(shape)
    return constructors.zeros(extents, *sharding_and_grid("zeros", extents, sharding, grid), dtype or "f8")


def ones(
    shape: int | Shape,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array of ones.  Local, called by every process."""
    return _filled("ones", shape, 1, dtype or "f8", device, sharding, grid)


def full(
    shape: int | Shape,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array of one number.  Local, called by every process."""
    return _filled("full", shape, fill_value, dtype, device, sharding, grid)


def _filled(
    op: str, shape: int | Shape, fill_value: Any, dtype: DTypeLike | None, device: Any, sharding: Rule, grid: Grid
) -> ShardedArray:
    check_device(op, device)
    extents, value = _extents(shape), fill_value
    if isinstance(fill_value, ShardedArray) and not fill_value.ndim:
        value = number_of(fill_value)
    element = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    return constructors.full(extents, *sharding_and_grid(op, extents, sharding, grid), element, fill_value=value)


def _like(make: Callable[..., ShardedArray], word: str) -> Callable[..., ShardedArray]:
    """The constructor that takes the shape, and what is not given otherwise, from an array."""

    def like(
        x: ShardedArray,
        /,
        *,
        dtype: DTypeLike | None = None,
        device: Any = None,
        sharding: Rule = None,
        grid: Grid = None,
    ) -> ShardedArray:
        op = f"{make.__name__}_like"
        x = as_sharded(op, x)
        target, on = sharding_and_grid(op, x.shape, sharding, grid, x)
        return make(x.shape, dtype=dtype or x.dtype, device=device, sharding=target, grid=on)

    like.__name__ = f"{make.__name__}_like"
    like.__doc__ = f"A sharded array {word}, of the shape of ``x``, spread as ``x``.  Local, called by every process."
    return like


empty_like = _like(empty, "whose cells are not initialised")
zeros_like = _like(zeros, "of zeros")
ones_like = _like(ones, "of ones")


def full_like(
    x: ShardedArray,
    /,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array of one number, of the shape of ``x``, spread as ``x``.  Local, called by every process."""
    x = as_sharded("full_like", x)
    target, on = sharding_and_grid("full_like", x.shape, sharding, grid, x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device, sharding=target, grid=on)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array of start, start + step, ... before ``stop``.  Collective over the grid."""
    check_device("arange", device)
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ValueError("arange: step is 0; it must be another number")
    whole = all(isinstance(each, int) for each in (start, stop, step))
    element = np.dtype("i8" if whole else "f8") if dtype is None else np.dtype(dtype)
    extent = len(range(int(start), int(stop), int(step))) if whole else max(ceil((stop - start) / step), 0)
    if whole and element.kind in "iu":

        def values(i: np.ndarray) -> np.ndarray:  # modulo 2**64, so that no step overflows
            first, by = (np.uint64(int(each) % 2**64) for each in (start, step))
            return (first + by * i.astype("u8")).astype(element)
    else:

        def values(i: np.ndarray) -> np.ndarray:
            return (float(start) + float(step) * i).astype(element)

    return constructors.from_function(
        values, (extent,), *sharding_and_grid("arange", (extent,), sharding, grid), element
    )


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    endpoint: bool = True,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded array of ``num`` numbers at equal distances, by numpy's formula.  Collective over the grid."""
    check_device("linspace", device)
    if num < 0:
        raise ShapeError(f"linspace: num is {num}; it must not be negative")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    element = np.dtype("c16" if is_complex else "f8") if dtype is None else np.dtype(dtype)
    working = np.result_type(element, "c16" if is_complex else "f8").type
    parts, first, last = max(num - 1 if endpoint else num, 1), working(start), working(stop)

    def values(i: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            distance = last - first
            by = distance / parts
            found = first + (i * by if by != 0 else i / parts * distance)
        return np.where(i == num - 1, last, found) if endpoint and num > 1 else found

    return constructors.from_function(values, (num,), *sharding_and_grid("linspace", (num,), sharding, grid), element)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: Any = None,
    sharding: Rule = None,
    grid: Grid = None,
) -> ShardedArray:
    """A sharded matrix of ones on diagonal ``k``, else zeros.  Collective over the grid."""
    check_device("eye", device)
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    target, on = sharding_and_grid("eye", shape, sharding, grid)
    return constructors.from_function(lambda i, j: j - i == k, shape, target, on, dtype or "f8")


def tril(x: ShardedArray, /, *, k: int = 0) -> ShardedArray:
    """The matrices of ``x`` with zeros above diagonal ``k``.  Collective."""
    return _np.tril(as_sharded("tril", x), k)


def triu(x: ShardedArray, /, *, k: int = 0) -> ShardedArray:
    """The matrices of ``x`` with zeros below diagonal ``k``.  Collective."""
    return _np.triu(as_sharded("triu", x), k)


def meshgrid(*arrays: ShardedArray, indexing: Literal["xy", "ij"] = "xy") -> list[ShardedArray]:
    """For each 1-d array, its cells laid along its dimension and repeated along all others.  Collective."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}; it must be 'xy' or 'ij'")
    lines = [as_sharded("meshgrid", x) for x in arrays]
    if any(x.ndim > 1 for x in lines):
        raise AxisError(f"meshgrid: arrays have shapes {[x.shape for x in lines]}; they must have one dimension")
    ndim = len(lines)
    order = [1, 0, *range(2, ndim)] if indexing == "xy" and ndim > 1 else list(range(ndim))
    open_: list[Any] = [
        _np.reshape(x, tuple([x.size if d == at else 1 for d in range(ndim)])) for x, at in zip(lines, order)
    ]
    shape = np.broadcast_shapes(*[x.shape for x in open_])
    return [_np.broadcast_to(x, shape) for x in open_]


def _extents(shape: Any) -> Shape:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
