"""Functions that make sharded arrays: from nothing, from a function of the indices, from global and local arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from spmd_grid.array.agreement import agree_dtype, check_sharding
from spmd_grid.array.local_arrays import allocate_local, fill_domain
from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import ShapeError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import as_array, as_dtype, as_scalar, gate_of, hashable

__all__ = ["empty", "from_function", "from_global", "from_local", "full", "zeros"]


def empty(
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype: DTypeLike = "float64",
    *,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array whose cells are not initialised.  Local, called by every process.

    Raises `GridError`, `ShardingError` and `DTypeError`, the same on every process.
    """
    return _make("empty", global_shape, sharding, grid, dtype, False, name)


def zeros(
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype: DTypeLike = "float64",
    *,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array of zeros, halos included.  Local, called by every process.

    Raises `GridError`, `ShardingError` and `DTypeError`, the same on every process.

    >>> from spmd_grid import Sharding, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((2, 2))
    ...     return zeros((5, 4), Sharding(grid, [[0], [1]]), grid).local.shape
    >>> run_spmd(body, ranks=4)
    [(3, 2), (3, 2), (2, 2), (2, 2)]
    """
    return _make("zeros", global_shape, sharding, grid, dtype, True, name)


def full(
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype: DTypeLike = "float64",
    *,
    fill_value: object,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array filled with the scalar ``fill_value``; halo cells outside the domain are 0.

    Local, called by every process.  Raises `GridError`, `ShardingError`, and `DTypeError` for a value that ``dtype``
    cannot hold, the same on every process.
    """
    result = _make("full", global_shape, sharding, grid, dtype, True, name)
    value = as_scalar("full", "fill_value", fill_value, result.dtype)
    fill_domain(result.stored, result.layout, grid.own_coords, value)
    return result


def from_global(array: ArrayLike, sharding: Sharding, grid: ProcessGrid, *, name: str | None = None) -> ShardedArray:
    """A sharded array with the values of ``array``, which must be the same on every process; copies.

    Collective over the grid (shape and dtype are compared, no data moves).  The global shape is that of ``array``.
    Halo cells in the domain are filled, those outside are 0.  Along partial axes the first device holds the value, the
    others the identity.  Raises `GridError`, `ShardingError`, `ShapeError` and `DTypeError`, the same on every process.

    >>> import numpy as np
    >>> from spmd_grid import Sharding, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((3,))
    ...     return from_global(np.arange(1, 8), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid).local.tolist()
    >>> run_spmd(body, ranks=3)
    [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 0]]
    """
    return ShardedArray.from_global(array, sharding, grid, name)


def from_local(
    local: np.ndarray,
    sharding: Sharding,
    grid: ProcessGrid,
    global_shape: Sequence[int],
    *,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array around this process's ``local`` array, halos included, without a copy.

    Collective over the grid (dtypes are compared, no data moves).  ``local`` has the shape
    ``sharding.local_shape(global_shape, grid.coords)``.  Raises `GridError`, `ShardingError`, `ShapeError`,
    `DTypeError` and `OutputError` (not a writeable array), the same on every process.

    >>> import numpy as np
    >>> from spmd_grid import Sharding, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((3,))
    ...     s = Sharding(grid, [[0]])
    ...     return from_local(np.full(s.local_shape((7,), grid.coords), grid.rank), s, grid, (7,)).to_global().tolist()
    >>> run_spmd(body, ranks=3)[0]
    [0, 0, 0, 1, 1, 1, 2]
    """
    return ShardedArray.from_local(local, sharding, grid, global_shape, name)


def from_function(
    f: Callable[..., ArrayLike],
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype: DTypeLike | None = None,
    *,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array of the values f(i, j, ...) at every global index.

    Collective over the grid (dtypes are compared, no data moves).  ``f`` gets one open index array per dimension, as
    ``numpy.ogrid`` makes them, and returns values that broadcast to them.  Halo cells in the domain are filled, those
    outside are 0.  Raises `GridError`, `ShardingError`, `ShapeError` and `DTypeError`, the same on every process.

    >>> from spmd_grid import Sharding, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((3,))
    ...     return from_function(lambda i, j: 10 * i + j, (3, 4), Sharding(grid, [[], [0]]), grid).local.tolist()
    >>> run_spmd(body, ranks=3)[1]
    [[2, 3], [12, 13], [22, 23]]
    """
    arguments = f, global_shape, sharding, grid, dtype, name
    return gate_of("from_function", grid).run("from_function", _from_function, *arguments)


def _from_function(
    f: Callable[..., ArrayLike],
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype: DTypeLike | None,
    name: str | None,
) -> ShardedArray:
    check_sharding("from_function", sharding, grid)
    layout, coords = Layout(sharding, hashable(global_shape)), grid.own_coords
    requested = as_dtype("from_function", dtype)
    inside = layout.local_box(coords).intersect(layout.domain_box)

    def evaluate() -> np.ndarray:
        values = as_array("from_function", f(*np.ogrid[inside.slices()]) if layout.ndim else f())
        try:
            values = np.broadcast_to(values, inside.shape)
            return values if requested is None else values.astype(requested)
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"from_function: f gave dtype {values.dtype} and shape {values.shape} for index arrays that span"
                f" {inside.shape}; {error}"
            ) from None

    values = agree_dtype("from_function", evaluate, grid, layout)
    local = allocate_local("from_function", layout, values.dtype, grid, zeroed=True)
    fill_domain(local, layout, coords, values)
    return ShardedArray(local, layout, grid, name).with_fresh_halos()


def _make(
    op: str,
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype: DTypeLike,
    zeroed: bool,
    name: str | None,
) -> ShardedArray:
    check_sharding(op, sharding, grid)
    layout = Layout(sharding, hashable(global_shape))
    requested = as_dtype(op, dtype)
    element = np.dtype("float64") if requested is None else requested
    return ShardedArray(allocate_local(op, layout, element, grid, zeroed), layout, grid, name)
