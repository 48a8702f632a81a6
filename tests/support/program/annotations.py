"""Random shardings of the values of random programs: closed, open and partial ones, with offsets and halos."""

import numpy as np

import spmd_grid as sg

KINDS = {"f": ("sum", "sum", "max", "min"), "i": ("sum", "max", "min"), "b": ("max", "min")}


def draw_sharding(source, grid, shape, dtype=None, *, may_be_open=False):
    """Any sharding of the grid's axes; ``dtype``: where given, it may be partial or have halos."""
    axes = [[] for _ in shape]
    order = list(source.one_of([range(grid.ndim), range(grid.ndim)[::-1]]))
    used = [axis for axis in order if source.chance(0.7)]
    for axis in used if shape else ():
        axes[source.number(0, len(shape) - 1)].append(axis)
    dims = [d for d, cut in enumerate(axes) if cut]
    options = {}
    if source.chance(0.15) and dims:
        options["sharded_dims_offsets"] = [_offsets(source, grid, axes[d], shape[d]) for d in dims]
    elif source.chance(0.2):
        options["blocks"] = "balanced"
    if dtype is not None:
        if source.chance(0.15) and dims:
            options["halo_sizes"] = [source.number(0, 2) for _ in range(2 * len(dims))]
        free = [axis for axis in range(grid.ndim) if not any(axis in cut for cut in axes)]
        if free and source.chance(0.25):
            options["partial_axes"] = free[: source.number(1, len(free))]
            options["partial_kind"] = source.one_of(KINDS[np.dtype(dtype).kind])
    if may_be_open and "sharded_dims_offsets" not in options:
        axes = [[*cut, sg.OPEN] if source.chance(0.3) else cut for cut in axes]
    return sg.Sharding(grid, axes, **options)


def _offsets(source, grid, axes, extent):
    parts = int(np.prod([grid.shape[axis] for axis in axes]))
    return [0, *sorted(source.number(0, extent) for _ in range(parts - 1)), extent]
