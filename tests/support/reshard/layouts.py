"""Layouts in few words, for tests that write down many."""

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding


def layout(grid, split_axes, shape, **options) -> Layout:
    return Layout(Sharding(grid, split_axes, **options), shape)


def at(grid_shape, split_axes, shape) -> Layout:
    return Layout(Sharding(Grid(grid_shape), split_axes), shape)
