"""Files that every process reads by itself, the cells of its own local array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.agreement import check_sharding
from spmd_grid.array.local_arrays import fill_domain
from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import DamagedError, DTypeError, SpmdError
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import as_dtype
from spmd_grid.storage.new_local import new_local
from spmd_grid.storage.team import Team
from spmd_grid.typing import Shape

__all__ = ["Source", "read_into_layout"]

_PIECE_BYTES = 1 << 26  # read at a time


class Source(Protocol):
    """An array in a file, open to be read by boxes."""

    text: str
    shape: Shape
    dtype: np.dtype

    def check(self, box: Box) -> None: ...

    def read(self, box: Box) -> np.ndarray: ...

    def close(self) -> None: ...


def read_into_layout(
    op: str, open_source: Callable[[], Source], sharding: Sharding, grid: ProcessGrid, dtype: DTypeLike | None
) -> ShardedArray:
    """The array of a source, each process reading its own cells.  Collective over the grid.

    Every process opens the source.  Errors of one process are raised on all, before and after anything is read.
    """
    check_sharding(op, sharding, grid)
    asked = as_dtype(op, dtype)
    team = Team(op, [grid])
    source: Source | None = None
    text = ""
    try:
        with team.trying():
            source = _opened(op, open_source)
            _check_dtype(op, source)
            text = f"{source.text!r} of dtype {source.dtype} and shape {source.shape} into {sharding}, dtype {asked}"
        team.agree()
        team.agree(text)
        assert source is not None, "a refusal raises on every process"
        layout = Layout(sharding, source.shape)
        local = new_local(team, layout, source.dtype if asked is None else asked, grid)
        with team.trying():
            _read(op, source, local, layout, grid)
        team.agree()
    finally:
        if source is not None:
            source.close()
    return ShardedArray(local, layout, grid).with_fresh_halos()


def _opened(op: str, open_source: Callable[[], Source]) -> Source:
    try:
        return open_source()
    except (SpmdError, OSError, MemoryError):
        raise
    except Exception as error:  # of the library that reads the file, which meets what is damaged in it
        raise DamagedError(f"{op}: the file cannot be read ({type(error).__name__}: {error})") from None


def _check_dtype(op: str, source: Source) -> None:
    if source.dtype.hasobject:
        raise DTypeError(f"{op}: {source.text!r} has dtype {source.dtype}, Python objects; only fixed-size dtypes can")


def _read(op: str, source: Source, local: np.ndarray, layout: Layout, grid: ProcessGrid) -> None:
    """Read the cells in the domain piece by piece.  Local."""
    coords = grid.own_coords
    if any(coords[axis] for axis in layout.sharding.partial_axes):  # the first device holds the values
        fill_domain(local, layout, coords, 0)
        return
    whole = layout.local_box(coords)
    inside = whole.intersect(layout.domain_box)
    source.check(inside)
    for piece in pieces_of(inside, max(_PIECE_BYTES // max(source.dtype.itemsize, 1), 1)):
        try:
            cells = source.read(piece)
        except Exception as error:  # of the library that reads the file
            raise DamagedError(f"{op}: cells {piece} of {source.text!r} cannot be read: {error}") from None
        view_of(local, piece.relative_to(whole.starts))[...] = cells
