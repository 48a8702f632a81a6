"""The devices around a process, as operations of the text use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spmd_grid.errors import GridError
from spmd_grid.grid.layout import Layout

__all__ = ["Devices", "Function"]

Function = Callable[..., Any]


class Devices:
    """The devices around a process.  Those that cannot do something refuse it, by GridError.

    ``size``: how many processes there are; ``rank``: the number of this one.
    """

    size: int = 0
    rank: int = 0

    def __init__(self, grids: Mapping[str, Any]):
        self._grids = grids

    def grid(self, name: str) -> Any:
        """The grid of a symbol.  Raises GridError."""
        if name not in self._grids:
            raise GridError(f"there is no grid @{name}; the module has {', '.join(self._grids) or 'none'}")
        return self._grids[name]

    def coords(self, name: str) -> tuple[int, ...]:
        """The coordinates of this process on a grid."""
        raise GridError("the index of the process has no meaning in a function that is partitioned")

    def annotate(self, x: Any, sharding: Any, options: dict[str, Any]) -> Any:
        """``x`` with a sharding, as ``shard.shard`` gives it; ``options``: those of `constrain`."""
        raise GridError("shard.shard annotates arrays of a function that is partitioned; this one has local types")

    def run(self, name: str, grid: str, axes: tuple[int, ...], x: Any, options: dict[str, Any]) -> Any:
        """The result of a collective along grid axes; None where this device has none."""
        raise GridError(f"shard.{name} takes local types; the function is partitioned")

    def among(self, group: tuple[int, ...], name: str, x: Any, options: dict[str, Any]) -> Any:
        """The result of a collective of the processes of these numbers, in this order, of which this is one."""
        raise GridError(f"{name} takes local types; the function is partitioned")

    def reshard(self, grid: str, x: Any, source: Layout, target: Layout) -> Any:
        """The block of another layout of the same array."""
        raise GridError("a move between layouts has no meaning in a function that is partitioned")

    def collectively(
        self,
        grid: str,
        function: Function,
        blocks: Sequence[Any],
        sources: Sequence[Layout | None],
        targets: Sequence[Layout],
    ) -> list[Any]:
        """The blocks of the results of a function of whole arrays; operands without a layout are plain."""
        raise GridError("a call on blocks has no meaning in a function that is partitioned")
