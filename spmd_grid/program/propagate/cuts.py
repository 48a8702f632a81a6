"""Cuts: the grid axes that cut one dimension or one iterator, and the shardings that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spmd_grid.compute.splits import Splits, block_starts
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.typing import Shape

__all__ = ["WHOLE_CUT", "Cut", "cut_of", "sharding_of_cuts", "splits_of_cuts"]


class Cut(NamedTuple):
    """The axes, major to minor, with the block policy, or the start of every block and the end where explicit."""

    axes: tuple[int, ...]
    blocks: str = "ceil"
    offsets: BlockStarts | None = None

    def starts(self, grid: Grid, extent: int) -> BlockStarts:
        """The start of every block of an extent, and its end."""
        return self.offsets or block_starts(Sharding(grid, [self.axes], blocks=self.blocks), 0, extent)

    def prefix(self, taken: set[int]) -> Cut:
        """The longest cut by leading axes of which none is ``taken``; all or nothing where offsets are explicit."""
        n = next((i for i, axis in enumerate(self.axes) if axis in taken), len(self.axes))
        if n == len(self.axes):
            return self
        return WHOLE_CUT if self.offsets else Cut(self.axes[:n], self.blocks)

    def extends(self, other: Cut) -> bool:
        """Whether it is ``other`` with more axes after its own."""
        return (
            len(self.axes) > len(other.axes)
            and self.axes[: len(other.axes)] == other.axes
            and self.offsets is None
            and other.offsets is None
        )


WHOLE_CUT = Cut(())


def cut_of(sharding: Sharding, dim: int) -> Cut:
    """The cut of a dimension."""
    return Cut(sharding.axes_of(dim), sharding.blocks, sharding.offsets_of(dim))


def _policy(grid: Grid, cuts: Sequence[Cut], extents: Shape) -> tuple[str, list[BlockStarts | None]]:
    """One block policy for all cuts, and their offsets; explicit ones for all where no policy is common to them."""
    cutting = [cut for cut in cuts if cut.axes]
    policies = {cut.blocks for cut in cutting}
    if len(policies) < 2 and all(cut.offsets is None for cut in cutting):
        return min(policies, default="ceil"), [None] * len(cuts)
    return "ceil", [cut.starts(grid, n) if cut.axes else None for cut, n in zip(cuts, extents)]


def sharding_of_cuts(grid: Grid, cuts: Sequence[Cut], shape: Shape) -> Sharding:
    """The sharding that cuts the dimensions so."""
    blocks, offsets = _policy(grid, cuts, shape)
    explicit = [each for each in offsets if each is not None]
    if explicit:
        return Sharding(grid, [cut.axes for cut in cuts], sharded_dims_offsets=explicit)
    return Sharding(grid, [cut.axes for cut in cuts], blocks=blocks)


def splits_of_cuts(grid: Grid, cuts: Sequence[Cut], extents: Shape) -> Splits:
    """The splits that cut the iterators of an operation so."""
    blocks, offsets = _policy(grid, cuts, extents)
    return Splits(grid, tuple([cut.axes for cut in cuts]), tuple(offsets), blocks)
