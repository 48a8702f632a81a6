"""The messages of one exchange: the boxes that each process sends, receives and keeps, listed in closed form.

Cores of the source are boxes, local arrays of the target are boxes, and a pair of devices shares the one box in which
they meet.  A receiver searches the source's cuts for the parts that meet its own box; a sender searches the target's.
Either costs what it finds.  A partial value is an array with one more, *hidden*, dimension: its contributions, cut by
the partial axes.  So partial sums are boxes too, and what arrives is folded along the hidden dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from spmd_grid.errors import ReductionError, ShapeError
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.cuts import CutDimension, cuts_of
from spmd_grid.reshard.geometry.pieces import Piece, box_of
from spmd_grid.reshard.geometry.receives import received_pieces
from spmd_grid.reshard.geometry.replicas import Replicas
from spmd_grid.reshard.geometry.sends import SearchLevel, search_levels, sent_pieces
from spmd_grid.typing import MultiIndex

__all__ = ["Piece", "Redistribution"]

# At most this many lists of at most this many pieces are kept.
_MOST_LISTS, _MOST_LISTED = 64, 256


@dataclass(frozen=True)
class Redistribution:
    """The boxes that move between the layouts ``source`` and ``target`` of one global shape; either may be partial.

    Plans only.  Boxes are in global coordinates; where ``hidden`` is not None, they have one more dimension in front:
    the contributions to a partial value.  ``node_size``: the number of consecutive processes that share a node.  Raises
    ShapeError for global shapes that differ, ReductionError for partial values of different kinds.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((2, 3))
    >>> moved = Redistribution(Layout(Sharding(grid, [[0], [1]]), (6, 6)), Layout(Sharding(grid, [[1], [0]]), (6, 6)))
    >>> [(piece.process, str(piece.box)) for piece in moved.receives((1, 0))]
    [(1, '[0:2, 3:4]'), (2, '[0:2, 4:6]')]
    """

    source: Layout
    target: Layout
    itemsize: int = 8
    node_size: int = 1

    def __post_init__(self) -> None:
        source, target = self.source, self.target
        if source.global_shape != target.global_shape:
            raise ShapeError(
                f"resharding from global shape {source.global_shape} to {target.global_shape}; they must be equal"
            )
        kinds = [side.sharding.partial_kind for side in (source, target) if side.sharding.partial_axes]
        if len(set(kinds)) > 1:
            raise ReductionError(f"one exchange from partial {kinds[0]} to partial {kinds[1]}; they must be equal")

    # -- boxes ---------------------------------------------------------------------------------------------------

    @cached_property
    def hidden(self) -> int | None:
        """The number of contributions to each value; None where neither side is partial."""
        source = self.source.sharding.partial_axes
        if not source and not self.target.sharding.partial_axes:
            return None
        return prod(self.source.grid.shape[axis] for axis in source)

    @cached_property
    def hidden_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The axes that cut the contributions, by side; shared ones first, so that these stay in place."""
        source, target = self.source.sharding.partial_axes, self.target.sharding.partial_axes
        shared = [axis for axis in source if axis in target and self.on_one_grid]
        before, after = ([axis for axis in side if axis not in shared] for side in (source, target))
        return (*shared, *before), (*shared, *after)

    def source_box(self, coords: MultiIndex) -> Box:
        """The cells that the device at ``coords`` of the source's grid holds: its core."""
        return box_of([cut.interval([coords[axis] for axis in cut.axes]) for cut in self.source_cuts])

    def target_box(self, coords: MultiIndex) -> Box:
        """The cells that the device at ``coords`` of the target's grid needs: its local array, in the domain."""
        return box_of([cut.window([coords[axis] for axis in cut.axes]) for cut in self.target_cuts])

    def kept_box(self, coords: MultiIndex) -> Box | None:
        """The cells that the device at ``coords`` of the target's grid needs and holds itself; None for no cells."""
        own = self.own_source(coords)
        if own is None:
            return None
        kept = self.source_box(own).intersect(self.target_box(coords))
        return None if kept.is_empty else kept

    def own_source(self, coords: MultiIndex) -> MultiIndex | None:
        """The source coordinates of the process at ``coords`` of the target's grid, if it has any."""
        if self.on_one_grid:
            return coords
        return self.source.grid.coords_of_process(self.target.grid.process(self.target.grid.linear_index(coords)))

    @cached_property
    def on_one_grid(self) -> bool:
        """Whether a process has the same coordinates on both sides."""
        return self.source.grid.is_like(self.target.grid)

    @cached_property
    def source_cuts(self) -> tuple[CutDimension, ...]:
        """The dimensions as the source's cores cut them, the hidden one in front."""
        return cuts_of(self.source, self.hidden, self.hidden_axes[0])

    @cached_property
    def target_cuts(self) -> tuple[CutDimension, ...]:
        """The dimensions as the target's local arrays cut them, halos included."""
        return cuts_of(self.target, self.hidden, self.hidden_axes[1], halos=True)

    @cached_property
    def replicas(self) -> Replicas:
        """The replicas of the source's blocks, and the rules by which they serve."""
        grids, has_hidden = (self.source.grid, self.target.grid), self.hidden is not None
        return Replicas(*grids, self.source_cuts, self.target_cuts, has_hidden, self.itemsize, self.node_size)

    @property
    def served_cuts(self) -> tuple[CutDimension, ...]:
        """The source's cuts, with blocks divided into the shares that replicas serve."""
        return self.replicas.served_cuts

    # -- messages ------------------------------------------------------------------------------------------------

    def receives(self, coords: MultiIndex) -> list[Piece]:
        """The pieces that the device at ``coords`` of the target's grid gets from others, in the order of the blocks.

        Local.
        """
        return self._listed("receives", self._received, tuple(coords))

    def sends(self, coords: MultiIndex) -> list[Piece]:
        """The pieces that the device at ``coords`` of the source's grid sends to other processes.  Local."""
        return self._listed("sends", self._sent, tuple(coords))

    def _received(self, coords: MultiIndex) -> Iterable[Piece]:
        needed, own = self.target_box(coords), self.own_source(coords)
        if needed.is_empty or (own is not None and self.source_box(own).contains(needed)):
            return ()
        return received_pieces(self.replicas, needed, coords, own)

    def _sent(self, coords: MultiIndex) -> Iterable[Piece]:
        return sent_pieces(self.replicas, self._levels, coords)

    @cached_property
    def _levels(self) -> tuple[SearchLevel, ...]:
        return search_levels(self.replicas)

    def _listed(self, side: str, pieces: Callable[[MultiIndex], Iterable[Piece]], coords: MultiIndex) -> list[Piece]:
        """The pieces of one side at ``coords``; short lists are kept: a plan is checked, counted and then bound."""
        key, known = (side, coords), self._lists
        found = known.get(key)
        if found is None:
            found = tuple(pieces(coords))
            if len(found) > _MOST_LISTED:
                return list(found)
            if len(known) >= _MOST_LISTS:
                known.clear()
            known[key] = found
        return list(found)

    @cached_property
    def _lists(self) -> dict[tuple[str, MultiIndex], tuple[Piece, ...]]:
        return {}
