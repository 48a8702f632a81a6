"""Processes of two grids, by the coordinates that they have on each."""

from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.volume.totals import most_local


def coords_of(grid, process):
    device = grid.device_of_process(process)
    return None if device is None else grid.multi_index(device)


def ends_of(move):
    """(source coordinates, target coordinates) of every process; None on a grid that it is not in."""
    grids = move.source.grid, move.target.grid
    processes = {grid.process(device) for grid in grids for device in range(grid.size)}
    return [tuple(coords_of(grid, process) for grid in grids) for process in sorted(processes)]


def most_arrays(source, target, shape) -> int:
    return sum(most_local(Layout(sharding, shape)) for sharding in (source, target))
