"""An oracle of update_halo: slices of the global array, found cell by cell."""

import numpy as np


def local_cells(starts, device, low, high, periodic):
    """For every cell of a local extent its global index, and whether it lies in the domain."""
    extent = starts[-1]
    cells = np.arange(starts[device] - low, starts[device + 1] + high)
    if periodic and extent:
        return cells % extent, np.ones(len(cells), bool)
    return cells, (cells >= 0) & (cells < extent)


def refreshed(local, array, lines) -> np.ndarray:
    """``local`` with every cell of the domain replaced by the global array's; ``lines``: what `local_cells` gave."""
    result = local.copy()
    inside = np.ix_(*(np.flatnonzero(known) for _, known in lines))
    result[inside] = array[np.ix_(*(cells[known] for cells, known in lines))]
    return result


class HaloCase:
    """A global array, how it is cut, and its halos; makes every device's local array before and after."""

    def __init__(self, grid_shape, split_axes, starts, halos, periodic, dtype="i8"):
        """``starts``, ``halos``: per tensor dimension; ``starts`` of dimensions that are not split are [0, extent]."""
        self.grid_shape, self.split_axes = grid_shape, split_axes
        self.starts, self.halos, self.periodic, self.dtype = starts, halos, periodic, np.dtype(dtype)

    @property
    def shape(self):
        return tuple(starts[-1] for starts in self.starts)

    @property
    def halo_sizes(self):
        return [self.halos[dim] for dim, axes in enumerate(self.split_axes) if axes]

    @property
    def offsets(self):
        return [self.starts[dim] for dim, axes in enumerate(self.split_axes) if axes]

    def array(self):
        n = int(np.prod(self.shape))
        return (np.arange(n) % 120 + 1).reshape(self.shape).astype(self.dtype)

    def place(self, coords, dim) -> int:
        axes = self.split_axes[dim] if dim < len(self.split_axes) else []
        place = 0
        for axis in axes:
            place = place * self.grid_shape[axis] + coords[axis]
        return place

    def before_and_after(self, coords):
        """The local array with its own cells only, the rest a number of its own; and as it must become."""
        lines, core, extents = [], [], []
        for dim, starts in enumerate(self.starts):
            place = self.place(coords, dim)
            low, high = self.halos[dim]
            lines.append(local_cells(starts, place, low, high, self.periodic[dim]))
            core.append(slice(starts[place], starts[place + 1]))
            extents.append(slice(low, low + starts[place + 1] - starts[place]))
        array = self.array()
        mine = -(1 + int(np.ravel_multi_index(coords, self.grid_shape)))
        local = np.full([len(cells) for cells, _ in lines], mine, self.dtype)
        local[tuple(extents)] = array[tuple(core)]
        return local, refreshed(local, array, lines)
