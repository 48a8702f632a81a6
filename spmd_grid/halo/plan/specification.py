"""The specification of a halo plan: checked, and compared between the processes that make the plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError, GridError, ShapeError, SpmdError
from spmd_grid.exchange.paths import checked_path, chosen_path
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.geometry.boundary import BoundaryLike, PeriodicLike, Rule, is_constant
from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.arguments import as_dtypes, as_scalar, check_grid, hashable
from spmd_grid.ops.calls.compare import AgreePlan

__all__ = ["HaloSpecification", "agree", "group_axes", "plan_text"]


_make_plan = AgreePlan("HaloExchange")


class HaloSpecification(NamedTuple):
    """The arguments that a plan is made from, unchecked, as `HaloExchange` takes them."""

    sharding: Sharding
    global_shape: Sequence[int]
    dtype: Any  # whatever numpy takes for a dtype, or a list of that
    periodic: PeriodicLike = False
    corners: bool = True
    n_fields: int = 1
    boundary: BoundaryLike = "leave"
    path: str | None = None


def group_axes(grid: ProcessGrid, sharding: Sharding) -> tuple[int, ...]:
    """The axes over which a halo's neighbours extend.  Local.  Raises GridError."""
    check_grid("HaloExchange", grid)
    if not isinstance(sharding, Sharding):
        raise GridError(f"HaloExchange: sharding is {sharding!r}; it must be a Sharding")
    if sharding.grid != grid.grid:
        raise GridError(f"HaloExchange: the sharding is on {sharding.grid!r}, but the grid is {grid.grid!r}")
    return tuple(sorted(chain(*sharding.split_axes)))


def agree(
    grid: ProcessGrid, axes: tuple[int, ...], asked: HaloSpecification
) -> tuple[HaloPattern, tuple[np.dtype, ...], str]:
    """The pattern, the dtype of each field and the path of a plan, once all processes specify the same.

    Collective over ``axes``.  Raises MismatchError, on all, where specifications differ or only some are valid.
    """
    error = None
    try:
        if not isinstance(asked.corners, bool | np.bool_):
            raise ShapeError(f"corners is {asked.corners!r}; it must be True or False")
        layout = Layout(asked.sharding, hashable(asked.global_shape))
        pattern = HaloPattern(layout, asked.periodic, bool(asked.corners), asked.boundary)  # type: ignore[arg-type]  # normalised there
        dtypes = _dtypes_of(asked.dtype, asked.n_fields)
        layout.check_addressable(sum(each.itemsize for each in dtypes))
        for rule in chain(*pattern.boundary):
            for each in dtypes if is_constant(rule) else ():
                as_scalar("HaloExchange", "boundary", rule, each)
        path = chosen_path() if asked.path is None else checked_path(asked.path, "path")
        plan = plan_text(pattern, dtypes, path)
    except SpmdError as problem:
        error = type(problem)(f"HaloExchange: {str(problem).removeprefix('HaloExchange: ')}")
        plan = f"refused: {error}"
    _make_plan.agree(grid, axes, plan, error)
    return pattern, dtypes, path


def _dtypes_of(dtype: Any, n_fields: int) -> tuple[np.dtype, ...]:
    """The dtype of each field."""
    if isinstance(n_fields, bool) or not isinstance(n_fields, int) or n_fields < 1:
        raise ShapeError(f"n_fields is {n_fields!r}; it must be a whole number, at least 1")
    several, dtypes = as_dtypes("HaloExchange", dtype)
    if not dtypes or (several and n_fields > 1 and len(dtypes) != n_fields):
        raise DTypeError(f"dtype is {dtype!r}; it must be one dtype, or a list of {n_fields}, one per field")
    found = dtypes if several else dtypes * min(n_fields, at.MOST_FIELDS + 1)
    if len(found) > at.MOST_FIELDS:
        raise ShapeError(f"{len(found)} fields; one plan moves at most {at.MOST_FIELDS}")
    return found


def plan_text(pattern: HaloPattern, dtypes: Sequence[np.dtype], path: str) -> str:
    """A description of the plan, equal for equal plans; functions are named, since they differ between processes.

    Local.
    """

    def text(rule: Rule) -> str:
        return getattr(rule, "__qualname__", type(rule).__name__) if callable(rule) else repr(rule)

    wraps = [dim for dim, wraps in enumerate(pattern.periodic) if wraps]
    rules = [" ".join(dict.fromkeys(map(text, sides))) for sides in pattern.boundary]
    return (
        f"{pattern.layout}, fields of {', '.join(map(str, dtypes))}, periodic dimensions {wraps},"
        f" {'with' if pattern.corners else 'without'} corners, boundary {' | '.join(rules)}, path {path}"
    )
