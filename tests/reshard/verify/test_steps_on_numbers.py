"""Steps of every kind, right and wrong, against what they do to numbers."""

import math
import random
from itertools import product

import pytest
from support.reshard.reshard_oracle import random_sharding
from support.reshard.right_steps import is_right

from spmd_grid.errors import SpmdError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_TO_ALL, SLICE, Step


def ids_of(where, coords) -> list:
    """The cells of a device's block, as nested tuples of global coordinates."""
    box = where.core_box(coords)
    return list(product(*map(range, box.starts, box.stops)))


def result_by_definition(step, coords):
    """The cells, by place in the result, that an operation brings: blocks as dictionaries from place to cell."""
    grid = step.source.grid

    def block(at):
        box = step.source.core_box(at)
        return {tuple(c - s for c, s in zip(cell, box.starts)): cell for cell in ids_of(step.source, at)}, box.shape

    def part(cells, shape, dim):
        """Cut by the rule, as it is stated: axis by axis."""
        low, high = 0, shape[dim]
        for axis in step.grid_axes:
            chunk = math.ceil((high - low) / grid.shape[axis])
            low, high = min(low + coords[axis] * chunk, high), min(low + (coords[axis] + 1) * chunk, high)
        kept = {p: c for p, c in cells.items() if low <= p[dim] < high}
        moved = {(*p[:dim], p[dim] - low, *p[dim + 1 :]): c for p, c in kept.items()}
        return moved, (*shape[:dim], high - low, *shape[dim + 1 :])

    cells, shape = block(coords)
    if step.kind == SLICE:
        return part(cells, shape, step.dims[0])
    group = [list(coords)]
    for axis in step.grid_axes:
        group = [
            [c if a != axis else digit for a, c in enumerate(at)] for at in group for digit in range(grid.shape[axis])
        ]
    joined, extent, dim = {}, 0, step.dims[-1]
    for at in group:
        cells, shape = block(at)
        if step.kind == ALL_TO_ALL:
            cells, shape = part(cells, shape, step.dims[0])
        joined |= {(*p[:dim], p[dim] + extent, *p[dim + 1 :]): c for p, c in cells.items()}
        extent += shape[dim]
    return joined, (*shape[:dim], extent, *shape[dim + 1 :])


@pytest.mark.parametrize("kind", [SLICE, ALL_GATHER, ALL_TO_ALL])
def test_what_is_refused_is_wrong_and_what_passes_is_right(kind, request):
    """Random steps, most of them wrong: the check says what moving every cell says."""
    rng, verdicts = random.Random(kind), []
    for _ in range(6000 if request.config.getoption("full") else 600):
        grid = Grid(rng.choice([(2,), (3,), (2, 2), (2, 3), (3, 2), (1, 2), (2, 1, 2)]))
        shape = tuple(rng.choice([1, 2, 3, 5, 6]) for _ in range(2))
        source = Layout(random_sharding(rng, grid, shape, plain=True), shape)
        axes = tuple(rng.sample(range(grid.ndim), rng.randint(1, grid.ndim)))
        dims = tuple(rng.sample(range(2), 2 if kind == ALL_TO_ALL else 1))
        split = [list(source.sharding.axes_of(dim)) for dim in range(2)]
        if rng.random() < 0.6:  # what it should be, give or take
            if kind != SLICE:
                gathered = split[dims[-1]]
                if gathered and rng.random() < 0.7:
                    axes = tuple(gathered[rng.randrange(len(gathered)) :])
                split = [[axis for axis in row if axis not in axes] for row in split]
            else:
                axes = tuple(axis for axis in axes if not any(axis in row for row in split)) or axes
            if kind != ALL_GATHER:
                split[dims[0]] = [axis for axis in split[dims[0]] if axis not in axes] + list(axes)
        try:
            target = Layout(Sharding(grid, split), shape)
        except SpmdError:
            continue
        if rng.random() < 0.3:
            target = Layout(random_sharding(rng, grid, shape, plain=True), shape)
        step = Step(kind, source, target, axes, dims)
        right = True
        for device in range(grid.size):
            coords = grid.multi_index(device)
            cells, got_shape = result_by_definition(step, coords)
            box = target.core_box(coords)
            wanted = {tuple(c - s for c, s in zip(cell, box.starts)): cell for cell in ids_of(target, coords)}
            right &= got_shape == box.shape and cells == wanted
        assert is_right(step) == right, step
        verdicts.append(right)
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9
