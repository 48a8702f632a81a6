"""Relays of whole arrays of members that all get the same result, or only root: each folds all of them, or a slice.

A relay may have more members than take part in a fold: those that fold other arrays meanwhile, in as many steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.exchange.agreement.relay import (
    AREA_ALIGNMENT,
    SLOT_BYTES,
    RelayProgram,
    RelayStep,
    Rings,
    Slots,
    area_of,
)
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.kernels import box_row
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.sizes import most_folded_whole
from spmd_grid.ops.reduction.slice_folding import slices_of

__all__ = ["cut_into_areas", "relay_of_alike"]

# Root folds up to this number of arrays alone as fast as it packs, folds and copies slices; more, up to these bytes.
_FEW_ARRAYS, _ROOT_ALONE = 4, 1 << 16


def relay_of_alike(
    rings: Rings, members: Sequence[int], itemsize: int, n_bytes: int, fold: int, root: int | None = None
) -> RelayProgram:
    """The relay that folds the arrays of ``members``, in this order, of ``n_bytes`` each.

    Local.  ``members``, and ``root`` that alone has a result, are numbers of rings; ``fold``: the compiled fold.
    """
    alike = _Alike(rings, members, itemsize, n_bytes, fold, root)
    return alike.of_slices() if alike.is_sliced else alike.of_wholes()


def cut_into_areas(boxes: Sequence[Box], areas: int, itemsize: int) -> tuple[list[list[Box]], int, Slots]:
    """The pieces of each box, the bytes of an area for one of them, and slots of these areas.  Local."""
    largest = max(box.size for box in boxes)
    most = max(min(SLOT_BYTES // AREA_ALIGNMENT // areas * AREA_ALIGNMENT // itemsize, largest), 1)
    area = -(-most * itemsize // AREA_ALIGNMENT) * AREA_ALIGNMENT
    return [list(pieces_of(box, most)) for box in boxes], area, Slots.of(area * areas)


class _Alike:
    """One fold, with the arguments of `relay_of_alike`."""

    def __init__(self, rings: Rings, members: Sequence[int], itemsize: int, n_bytes: int, fold: int, root: int | None):
        self._rings, self._members, self._me = rings, members, rings.member
        self._itemsize, self._n_bytes, self._fold, self._root = itemsize, n_bytes, fold, root

    @property
    def is_sliced(self) -> bool:
        """Whether each member folds a slice."""
        size = len(self._members)
        if self._root is not None:
            return size > _FEW_ARRAYS and self._n_bytes > _ROOT_ALONE
        return self._n_bytes > most_folded_whole(size)

    def of_wholes(self) -> RelayProgram:
        """Steps in which all members, or root, fold a piece of whole arrays."""
        me, itemsize = self._me, self._itemsize
        n, most = self._n_bytes // itemsize, SLOT_BYTES // itemsize
        slots, folds, steps = Slots.of(min(n, most) * itemsize), self._root in (None, me), []
        for number, first in enumerate(range(0, n, most)):
            count, start, at_byte = min(most, n - first), slots.start(number), first * itemsize
            row = box_row((count,), itemsize, (itemsize,), at_byte, (itemsize,), start, 0, at.FIRST_RING + me)
            rows = {i: at_byte if i == me else start for i in self._members}
            packs = self._root is None or self._root != me
            steps.append(RelayStep([row] if packs else [], [], self._words(count, at_byte, rows) if folds else []))
        return RelayProgram(self._rings, slots, steps, self._n_bytes if folds else 0, self._fold if folds else 0)

    def of_slices(self) -> RelayProgram:
        """The steps of a fold by slices: every member folds its slice, and all, or root, copy the others' results.

        If only root has a result, the others fold into memory of the program.
        """
        me, size, itemsize = self._members.index(self._me), len(self._members), self._itemsize
        flat, mine = (itemsize,), at.FIRST_RING + self._me
        slices = slices_of(self._n_bytes // itemsize, size)
        has_result = self._root in (None, self._me)
        folded_from = 0 if has_result else slices[me].starts[0] * itemsize
        cuts, area, slots = cut_into_areas(slices, size, itemsize)
        steps = [RelayStep([], [], []) for _ in range(max(map(len, cuts)) + 2)]
        for member, pieces in enumerate(cuts):
            ring = at.FIRST_RING + self._members[member]
            for number, piece in enumerate(pieces):
                first, start = piece.starts[0] * itemsize, slots.start(number)
                result = slots.start(number + 2) + area * (size - 1)
                last = steps[number + 2]
                if member != me:
                    packed = start + area * area_of(me, member)
                    ends = at.FROM_X, mine
                    steps[number].packs.append(box_row(piece.shape, itemsize, flat, first, flat, packed, *ends))
                    ends = ring, at.INTO_RESULT
                    if has_result:
                        last.lands.append(box_row(piece.shape, itemsize, flat, result, flat, first, *ends))
                else:
                    rows = {m: start + area * area_of(i, me) for i, m in enumerate(self._members)}
                    rows[self._me] = first
                    into = first - folded_from
                    steps[number].fold[:] = self._words(piece.size, into, rows)
                    if self._root != self._me:
                        ends = at.INTO_RESULT, ring
                        last.packs.append(box_row(piece.shape, itemsize, flat, into, flat, result, *ends))
        scratch = 0 if has_result else slices[me].size * itemsize
        ends = self._n_bytes, self._fold
        return RelayProgram(self._rings, slots, steps, *ends, spreads=True, scratch_bytes=scratch)

    def _words(self, count: int, into: int, rows: dict[int, int]) -> list[int]:
        """The words of a step's fold; members that are not among ``rows`` have none."""
        return [count, into, *[rows.get(ring, at.NO_ROW) for ring in range(len(self._rings.addresses))]]
