"""Layouts in few words, for tests of drawings."""

import spmd_grid as sg
from spmd_grid.grid.layout import Layout


def layout(grid, split_axes, shape, **options):
    names, ranks = options.pop("axis_names", None), options.pop("ranks", None)
    return Layout(sg.Sharding(sg.Grid(grid, axis_names=names, ranks=ranks), split_axes, **options), shape)
