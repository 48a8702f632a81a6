"""A model of the resharding in the compiler's own partition pass: the steps that it makes, and whether its data are
right.

The rules are those of LLVM 23: one sweep over the tensor dimensions, and for each the first pattern that fits.  On most
pairs no pattern fits, and on some the types agree while the data do not, since a moved axis is put in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["Upstream", "upstream_of"]

Lists = tuple[tuple[int, ...], ...]


class CompilerStep(NamedTuple):
    """One collective: its name, the grid axes, and the tensor dimensions that it works on."""

    name: str
    axes: tuple[int, ...]
    dims: tuple[int, ...]

    def __str__(self) -> str:
        words = {"all_slice": "slice_axis", "all_gather": "gather_axis"}
        where = (
            f"split_axis = {self.dims[0]} concat_axis = {self.dims[1]}"
            if self.name == "all_to_all"
            else f"{words[self.name]} = {self.dims[0]}"
        )
        return f"{self.name} grid_axes = {list(self.axes)} {where}"


class Upstream(NamedTuple):
    """The answer of the compiler's pass to a resharding.

    ``refusal``: why it gives up; "" where it does not.  ``is_right``: whether the devices hold what the target says.
    """

    steps: tuple[CompilerStep, ...]
    refusal: str
    is_right: bool

    def __str__(self) -> str:
        if self.refusal:
            return f"the compiler's pass would refuse it: {self.refusal}"
        done = "; ".join(map(str, self.steps)) or "nothing"
        verdict = "as here" if self.is_right else "whose types agree, but which gives WRONG DATA"
        return f"the compiler's pass would do {done}, {verdict}"


def upstream_of(source: Sharding, target: Sharding, shape: Shape) -> Upstream:
    """The answer of the compiler's pass to a resharding from one sharding to another.  Plans only.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> grid = Grid((2,))
    >>> print(upstream_of(Sharding(grid, [[], [0]]), Sharding(grid, [[0], []]), (4, 4)))
    the compiler's pass would do all_slice grid_axes = [0] slice_axis = 0; all_gather grid_axes = [0] gather_axis = 1, \
whose types agree, but which gives WRONG DATA
    """
    grid = source.grid
    current, wanted = (_lists(each, len(shape)) for each in (source, target))
    plain = _plainness(source, target, shape)
    if plain:
        return Upstream((), plain, False)
    steps: list[CompilerStep] = []
    now = [list(axes) for axes in current]
    for d in range(len(shape)):
        step = _first_fitting(now, wanted, d)
        if step is not None:
            steps.append(step)
    if tuple(map(tuple, now)) != wanted:
        return Upstream(tuple(steps), f"no pattern leads from {_shown(current)} to {_shown(wanted)}", False)
    return Upstream(tuple(steps), "", _gives(grid, current, wanted, steps))


def _lists(sharding: Sharding, rank: int) -> Lists:
    return tuple([tuple(sharding.axes_of(dim)) for dim in range(rank)])


def _shown(lists: Lists) -> str:
    return str([list(axes) for axes in lists])


def _plainness(source: Sharding, target: Sharding, shape: Shape) -> str:
    """The reason for which a pair is outside of all patterns; "" where it is not."""
    if source.grid != target.grid:
        return "the shardings are on different grids"
    for each in (source, target):
        if each.partial_axes:
            return "partial axes have left the dialect"
        if each.sharded_dims_offsets or each.blocks != "ceil":
            return "patterns take no offsets of shards"
        if each.halo_sizes:
            return "patterns take no halos where the split changes"
        for dim, n in enumerate(shape):
            if n % prod(each.sizes_of(dim)):
                return f"extent {n} of dimension {dim} is not a multiple of its {prod(each.sizes_of(dim))} shards"
    return ""


def _first_fitting(now: list[list[int]], wanted: Lists, d: int) -> CompilerStep | None:
    """The step of the first pattern that fits dimension ``d``, after which ``now`` holds."""
    have, due = now[d], list(wanted[d])
    if have and due == have[:-1]:
        axis = have[-1]
        for t, axes in enumerate(wanted):
            if t != d and list(axes) == [axis, *now[t]]:
                now[d], now[t] = have[:-1], [axis, *now[t]]
                return CompilerStep("all_to_all", (axis,), (t, d))
    if len(due) == len(have) + 1 and due[:-1] == have:
        now[d] = due
        return CompilerStep("all_slice", (due[-1],), (d,))
    if len(due) < len(have) and have[: len(due)] == due:
        now[d] = due
        return CompilerStep("all_gather", tuple(have[len(due) :]), (d,))
    return None


# -- the data ------------------------------------------------------------------------------------------------------


def _gives(grid: Grid, source: Lists, target: Lists, steps: Sequence[CompilerStep]) -> bool:
    """Whether the steps give what the target says, on a small array whose cells are all different."""
    sizes = grid.shape
    used = [sorted({*before, *after}) for before, after in zip(source, target)]
    shape = tuple([prod(sizes[a] for a in axes) for axes in used])
    whole = np.arange(prod(shape)).reshape(shape)
    devices = list(product(*[range(n) for n in sizes]))
    held = {each: whole[_cells(each, source, sizes, shape)] for each in devices}
    for step in steps:
        held = {each: _after(step, each, held, sizes) for each in devices}
        if any(x is None for x in held.values()):
            return False
    return all(np.array_equal(held[each], whole[_cells(each, target, sizes, shape)]) for each in devices)


def _cells(coords: tuple[int, ...], lists: Lists, sizes: Sequence[int], shape: Shape) -> tuple[slice, ...]:
    cells = []
    for axes, n in zip(lists, shape):
        start, length = 0, n
        for a in axes:
            length //= sizes[a]
            start += coords[a] * length
        cells.append(slice(start, start + length))
    return tuple(cells)


def _after(
    step: CompilerStep, coords: tuple[int, ...], held: dict[tuple[int, ...], np.ndarray], sizes: Sequence[int]
) -> np.ndarray:
    """The array that a device holds after a step."""
    group = [_with(coords, step.axes, index) for index in product(*[range(sizes[a]) for a in step.axes])]
    n, own = len(group), group.index(coords)
    if step.name == "all_slice":
        return np.split(held[coords], n, step.dims[0])[own]
    if step.name == "all_gather":
        return np.concatenate([held[each] for each in group], step.dims[0])
    split, concat = step.dims
    return np.concatenate([np.split(held[each], n, split)[own] for each in group], concat)


def _with(coords: tuple[int, ...], axes: Sequence[int], index: Sequence[int]) -> tuple[int, ...]:
    found = list(coords)
    for a, n in zip(axes, index):
        found[a] = n
    return tuple(found)
