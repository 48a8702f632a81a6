"""Defaults of the array API's constructors: the grid and the sharding of arrays that are made without naming them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from spmd_grid.array.agreement import check_on_grid
from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.compute.splits import plain_sharding
from spmd_grid.errors import GridError, ShardingError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import check_grid
from spmd_grid.typing import Shape

__all__ = ["LONGEST", "ShardingRule", "sharding_and_grid", "use_sharding_defaults"]

LONGEST = "longest"

# A sharding, a function of the global shape that gives one, or LONGEST.
ShardingRule = Sharding | Callable[[Shape], Sharding] | str


class _Defaults(NamedTuple):
    grid: ProcessGrid
    rule: ShardingRule


# Each simulated rank is a thread, and each thread starts without defaults.
_defaults: ContextVar[_Defaults | None] = ContextVar("sharding defaults", default=None)


@contextmanager
def use_sharding_defaults(grid: ProcessGrid, sharding: ShardingRule = LONGEST) -> Iterator[None]:
    """Makes ``grid`` and ``sharding`` the defaults of `array_api`'s constructors within a ``with``.

    Local, called by every process; it holds for the calling thread.  ``sharding`` is "longest", which cuts the longest
    dimension (the first of equals) along all grid axes; a function from a global shape to a `Sharding`; or a `Sharding`
    without halos, offsets and partial axes, of which an array with fewer dimensions takes the first entries.  Raises
    `GridError` and `ShardingError`, the same on every process.

    >>> import spmd_grid as sg
    >>> def body():
    ...     with sg.use_sharding_defaults(sg.init_grid((3,))):
    ...         return sg.array_api.ones((2, 7)).local.shape
    >>> sg.run_spmd(body, ranks=3)
    [(2, 3), (2, 3), (2, 1)]
    """
    check_grid("use_sharding_defaults", grid)
    _check_rule("use_sharding_defaults", sharding, grid)
    token = _defaults.set(_Defaults(grid, sharding))
    try:
        yield
    finally:
        _defaults.reset(token)


def sharding_and_grid(
    op: str,
    shape: Shape,
    sharding: ShardingRule | None,
    grid: ProcessGrid | None,
    like: ShardedArray | None = None,
) -> tuple[Sharding, ProcessGrid]:
    """The sharding and the grid of a new array of ``shape``.  Local.  Raises `GridError` and `ShardingError`.

    What the call does not name is that of ``like``, an array of the same shape, if there is one, else the default.
    """
    found = _defaults.get()
    if grid is None and like is not None:
        grid = like.grid
    if grid is None:
        if found is None:
            raise GridError(
                f"{op}: no grid is given, and there is no default: pass grid= and sharding=, or call it within"
                " 'with sg.use_sharding_defaults(grid):'"
            )
        grid = found.grid
    check_grid(op, grid)
    if sharding is not None:
        if isinstance(sharding, Sharding):
            check_on_grid(op, sharding, grid)
            return sharding, grid
        _check_rule(op, sharding, grid)
        return _by_rule(op, sharding, shape, grid), grid
    if like is not None and like.sharding.grid == grid.grid:
        return plain_sharding(like.sharding), grid
    by_default = found is not None and found.grid.grid == grid.grid
    return _by_rule(op, found.rule if found is not None and by_default else LONGEST, shape, grid), grid


def _check_rule(op: str, rule: object, grid: ProcessGrid) -> None:
    if isinstance(rule, Sharding):
        check_on_grid(op, rule, grid)
        if rule.sharded_dims_offsets or rule.halo_sizes is not None or rule.partial_axes:
            raise ShardingError(
                f"{op}: the default sharding is {rule}; it must have no offsets, halos and partial axes, since it"
                " holds for every shape: a function of the shape may give them"
            )
    elif rule != LONGEST and not callable(rule):
        raise ShardingError(
            f"{op}: sharding is {rule!r}; it must be a Sharding, {LONGEST!r}, or a function of the shape"
        )


def _by_rule(op: str, rule: ShardingRule, shape: Shape, grid: ProcessGrid) -> Sharding:
    if isinstance(rule, Sharding):
        return Sharding(grid, rule.split_axes[: len(shape)], blocks=rule.blocks)
    if callable(rule):
        sharding = rule(shape)
        check_on_grid(op, sharding, grid)
        return sharding
    if not shape:
        return Sharding(grid, [])
    longest = shape.index(max(shape))
    return Sharding(grid, [*([()] * longest), tuple(range(grid.ndim))])
