"""Finds the device and the local index of a global cell, and the reverse; pure functions of a layout.

Indices are global: one whole number per tensor dimension, counted from 0.  Negative ones are refused: -1 is the last
cell in numpy, but here it would be the halo cell before the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.grid.box import Box, as_ints
from spmd_grid.grid.layout import Layout
from spmd_grid.plain_arrays import check_plain
from spmd_grid.typing import MultiIndex

__all__ = ["coordinates", "held_box", "index_arrays", "local_index", "owner_of"]


def owner_of(layout: Layout, index: Sequence[int]) -> MultiIndex:
    """The coordinates of the device whose core holds the cell; 0 on replicated and partial axes.

    Local.  Raises ShapeError.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> owner_of(Layout(Sharding(Grid((2, 3)), [[1]]), (7,)), (3,))
    (0, 1)
    """
    cell = _check_index("owner_of", layout, index)
    [(coords, _)] = layout.owners(Box(cell, tuple([i + 1 for i in cell])))
    return coords


def local_index(layout: Layout, coords: MultiIndex, index: Sequence[int], halos: bool) -> MultiIndex | None:
    """The index of the cell in the local array of the device at ``coords``; None if the device does not hold it.

    Local.  Cells of halos count with ``halos`` only.  Raises ShapeError.
    """
    cell = _check_index("local_index", layout, index)
    held = held_box(layout, coords, halos)
    if not all(start <= i < stop for i, start, stop in zip(cell, held.starts, held.stops, strict=True)):
        return None
    first = layout.local_box(coords).starts
    return tuple([i - start for i, start in zip(cell, first, strict=True)])


def held_box(layout: Layout, coords: MultiIndex, halos: bool) -> Box:
    """The core of the device at ``coords``, or with ``halos`` its local array, in global coordinates.  Local."""
    return layout.local_box(coords) if halos else layout.core_box(coords)


def index_arrays(box: Box) -> tuple[np.ndarray, ...]:
    """The indices of the cells of ``box``, one open array per dimension, which broadcast against one another.

    Local.  Like ``numpy.ogrid``, but cells may be negative.

    >>> index_arrays(Box((-1, 4), (2, 6)))
    (array([[-1],
           [ 0],
           [ 1]]), array([[4, 5]]))
    """
    open_shapes = [[-1 if other == dim else 1 for other in range(box.ndim)] for dim in range(box.ndim)]
    return tuple(
        [
            np.arange(start, stop).reshape(shape)
            for start, stop, shape in zip(box.starts, box.stops, open_shapes, strict=True)
        ]
    )


def coordinates(box: Box, origin: float | Sequence[float], spacing: float | Sequence[float]) -> tuple[np.ndarray, ...]:
    """``origin + spacing * index`` of the cells of ``box``, as open float arrays.

    Local.  ``origin`` and ``spacing``: one number, or one per dimension.  Raises ShapeError.

    >>> coordinates(Box((3,), (6,)), 0.5, [0.25])
    (array([1.25, 1.5 , 1.75]),)
    """
    origins, spacings = _per_dimension("origin", origin, box.ndim), _per_dimension("spacing", spacing, box.ndim)
    return tuple([o + s * i for o, s, i in zip(origins, spacings, index_arrays(box), strict=True)])


def _check_index(op: str, layout: Layout, index: object) -> MultiIndex:
    cell = as_ints(index)
    shape = layout.global_shape
    if cell is None or len(cell) != len(shape) or not all(0 <= i < extent for i, extent in zip(cell, shape)):
        raise ShapeError(
            f"{op}: index={index!r}; it must list, for each of the {len(shape)} dimensions of global shape {shape}, a"
            " whole number from 0 and below the extent"
        )
    return cell


def _per_dimension(what: str, value: float | Sequence[float], ndim: int) -> list[float]:
    check_plain("coordinates", what, value)
    numbers: np.ndarray | None = None
    with suppress(ValueError):  # rows of different lengths
        numbers = np.asarray(value)
    if numbers is None or numbers.dtype.kind not in "iuf" or numbers.shape not in ((), (ndim,)):
        raise ShapeError(f"coordinates: {what}={value!r}; it must be a number, or one for each of {ndim} dimensions")
    return np.broadcast_to(numbers.astype(np.float64), (ndim,)).tolist()
