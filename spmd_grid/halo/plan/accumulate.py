"""The reverse of a halo: its cells go back and are added to those they are copies of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.grid.cells import Cells
from spmd_grid.halo.plan.channels import PlanChannels
from spmd_grid.kernels.protocol import slots as at

__all__ = ["Reverse", "check_addable"]


def check_addable(arrays: Sequence[np.ndarray]) -> None:
    """Refuses dtypes that cannot be added.  Local; the caller passes the error on to its neighbours."""
    for array in arrays:
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"dtype {array.dtype}; only numbers and bools can be added")


class Reverse:
    """The channel that takes halo cells to their owners, always through staging: they are added, not copied.

    Collective over the neighbours when made.
    """

    def __init__(self, channels: PlanChannels):
        self.channel = channels.reverse()
        self._me = self.channel.comm.rank
        self._takes = channels.pattern.takes(channels.coords)
        self._own = [take for take in self._takes if channels.member_of(take.owner) == self._me]

    def run(self, arrays: Sequence[np.ndarray], call: ChannelCall) -> int:
        """Adds the halos of ``arrays`` to their owners' cells; the code of the end.  Collective over the neighbours."""
        channel = self.channel
        code = channel.run(at.BEGIN, call) or channel.run(at.ARRIVE)
        if code:
            return code
        try:
            if not channel.is_refused:
                self._add(arrays)
        except Exception as error:  # whatever numpy may raise: neighbours wait for this process to leave
            if channel.run(at.LEAVE | at.PART) == at.FINE:
                channel.comm.process.gate.spare(error)
            raise
        return channel.run(at.LEAVE | at.PART)

    def _add(self, arrays: Sequence[np.ndarray]) -> None:
        """Adds the cells received and those of the own halo, in the order of members; then clears the halo."""
        takes = self.channel.takes
        parts = {member: ([taken.target for taken in takes[member]], cells) for member, cells in self.channel.arrived()}
        parts[self._me] = (
            [take.source for take in self._own],
            [[array[take.box.slices()].copy() for take in self._own] for array in arrays],
        )
        for member in sorted(parts):
            targets, by_field = parts[member]
            for array, pieces in zip(arrays, by_field, strict=True):
                for target, values in zip(targets, pieces, strict=True):
                    _add_to(array, target, values)
        for array in arrays:
            for take in self._takes:
                array[take.box.slices()] = 0


def _add_to(array: np.ndarray, cells: Cells, values: np.ndarray) -> None:
    """Adds ``values`` to ``array[cells]``, in which a cell may occur many times."""
    again = tuple([d for d, step in enumerate(cells.steps) if step == 0])
    if again:
        values = np.add.reduce(values, axis=again, keepdims=True, dtype=array.dtype.newbyteorder("="))
    once = Cells(cells.starts, tuple([step or 1 for step in cells.steps]), values.shape).view(array)
    np.add(once, values, out=once)
