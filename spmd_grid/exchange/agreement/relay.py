"""Relays: arrays that pass through staging memory in steps, all of which one compiled call makes.

Reading an array where it lies is one pass over memory, but not always the fastest way.  Lines of cache that another
processor has written are slow to fetch from its cache, and slow to write to after it has read them.  A relay's ring is
larger than the caches next to a processor, so what lies in it has moved on to a common one; and for members that share
no cache it is written past the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.reduce.folds import STREAMED_FROM
from spmd_grid.kernels.reduce.variants import BUFFER_BYTES
from spmd_grid.links.sizes import RELAY_SLOT_BYTES

__all__ = [
    "AREA_ALIGNMENT",
    "COPIED_IF_RELAYED",
    "RELAYED_FROM",
    "RING_BYTES",
    "SLOT_BYTES",
    "RelayProgram",
    "Rings",
    "Slots",
    "RelayStep",
    "area_of",
    "has_areas",
]


# A relay's ring has slots, of which each step packs one.
RING_BYTES, SLOT_BYTES = 1 << 20, RELAY_SLOT_BYTES
_SLOTS = RING_BYTES // SLOT_BYTES
AREA_ALIGNMENT = 128  # bytes that no two writers share

# Arrays of up to this many bytes travel in the lines of a meeting: a relay costs one more round of words.
RELAYED_FROM = at.LINE_ARRAY_BYTES

# Operations that have no relay copy arrays of up to this many bytes, which lie elsewhere, into the arena.
COPIED_IF_RELAYED = 1 << 14


def area_of(owner: int, reader: int) -> int:
    """The index of the area that ``reader`` reads, in slots of ``owner`` that have one for each other member."""
    return reader - (reader > owner)


def has_areas(members: int, itemsize: int) -> bool:
    """Whether a slot has areas for this number of members, each with space for a cell of ``itemsize`` bytes.  Local."""
    return members * max(itemsize, 8 * AREA_ALIGNMENT) <= SLOT_BYTES


class Rings(NamedTuple):
    """The addresses of the state of a meeting, and of its members' rings; ``member``: the index of this one."""

    state: int
    addresses: np.ndarray
    member: int


class Slots(NamedTuple):
    """The parts of a ring that the steps of a relay use by turns, of ``n_bytes`` each; alike on all members."""

    n_bytes: int

    @classmethod
    def of(cls, most: int) -> Slots:
        """Slots for steps that pack at most ``most`` bytes, which is at most `SLOT_BYTES`."""
        return cls(max(-(-most // AREA_ALIGNMENT) * AREA_ALIGNMENT, AREA_ALIGNMENT))

    def start(self, step: int) -> int:
        """The first byte of what a step packs."""
        return step % _SLOTS * self.n_bytes


class RelayStep(NamedTuple):
    """The rows of a copy table that one step packs and lands, and the words of its fold (none: nothing is folded).

    Bases of the rows are FROM_X, INTO_RESULT, and FIRST_RING + a member's index.  Rows that land from this member's own
    array are copied while others pack, as soon as it has posted the step.
    """

    packs: list[BoxRow | None]
    lands: list[BoxRow | None]
    fold: list[int]

    def parts(self, member: int, size: int) -> tuple[list[BoxRow], list[BoxRow], list[BoxRow]]:
        """The rows that ``member`` packs, those that it keeps, and those that it copies from others.

        The last begin with the next member: if all began with the same one, a single cache would serve them all.
        """
        packs, lands = ([row for row in rows if row is not None] for rows in (self.packs, self.lands))
        own = [row for row in lands if row.source_base == at.FROM_X]
        others = [row for row in lands if row.source_base != at.FROM_X]
        return packs, own, sorted(others, key=lambda row: (row.source_base - at.FIRST_RING - member) % size)


class RelayProgram:
    """A relay for the compiled run, of arrays with certain strides.

    ``rings``: the members' rings; ``n_bytes``: those of this member's result; ``fold``: the address of
    the compiled fold; ``own_in_ring``: whether this member folds its own row from its ring; ``spreads``: whether what
    it folds is packed again, for the others; ``scratch_bytes``: the size of what it folds for others if it has no
    result itself; ``streams``: whether cells are copied past the caches into the result, where that does not follow
    from its size as in operations.
    """

    def __init__(
        self,
        rings: Rings,
        slots: Slots,
        steps: Sequence[RelayStep],
        n_bytes: int,
        fold: int = 0,
        own_in_ring: bool = False,
        spreads: bool = False,
        scratch_bytes: int = 0,
        streams: int | None = None,
    ):
        parts = [step.parts(rings.member, len(rings.addresses)) for step in steps]
        packs, keeps, lands = (_counted(rows) for rows in zip(*parts)) if parts else [_counted([])] * 3
        keeps.firsts[:] += len(packs.rows)
        lands.firsts[:] += len(packs.rows) + len(keeps.rows)
        table = kernels.build_table([*packs.rows, *keeps.rows, *lands.rows])
        width = at.FOLD_FIRST + len(rings.addresses)
        folds = np.array([step.fold or (0,) * width for step in steps], np.int64)
        row_words, large = np.zeros(len(rings.addresses), np.int64), n_bytes >= STREAMED_FROM
        scratch = np.empty(scratch_bytes, np.uint8)
        buffer = np.empty(BUFFER_BYTES if fold and large and not spreads else 0, np.uint8)
        self._alive = rings, table, packs, keeps, lands, folds, row_words, buffer, scratch
        self.words = words = np.zeros(at.RELAY_WORDS, np.int64)
        part_bytes = min(len(steps), _SLOTS) * slots.n_bytes
        words[at.RELAY_STATE] = rings.state
        words[at.RELAY_STEPS], words[at.RELAY_RINGS] = len(steps), kernels.address_of(rings.addresses)
        words[at.RELAY_PARTS], words[at.RELAY_PART_BYTES] = RING_BYTES // part_bytes, part_bytes
        words[at.RELAY_COPY], words[at.RELAY_TABLE] = kernels.copy_address, kernels.address_of(table)
        words[at.RELAY_COLUMNS] = table.shape[1]
        words[at.RELAY_LANDS_STREAMING] = kernels.streams_for(n_bytes) if streams is None else streams
        words[[at.RELAY_PACKS, at.RELAY_KEEPS, at.RELAY_LANDS]] = [
            kernels.address_of(each.firsts) for each in (packs, keeps, lands)
        ]
        words[at.RELAY_FOLD], words[at.RELAY_FOLDS] = fold, kernels.address_of(folds)
        words[at.RELAY_ROWS] = kernels.address_of(row_words)
        words[at.RELAY_BUFFER] = kernels.address_of(buffer) if buffer.size else 0
        words[at.RELAY_OWN_IN_RING] = own_in_ring
        words[at.RELAY_SCRATCH] = kernels.address_of(scratch) if scratch_bytes else 0
        self.address = kernels.address_of(words)

    def run(self, x: np.ndarray | None, result: np.ndarray | None) -> bool:
        """Run the relay after a meeting; False if a wait was given up.  Collective over its members."""
        x_at = 0 if x is None else kernels.address_of(x)
        return kernels.relay(self.address, x_at, 0 if result is None else kernels.address_of(result)) == at.FINE


class _Counted(NamedTuple):
    """The rows of all steps, and the number of the first row of each, and of the end."""

    rows: list[BoxRow]
    firsts: np.ndarray


def _counted(steps: Sequence[Sequence[BoxRow]]) -> _Counted:
    rows: list[BoxRow] = []
    firsts = [0]
    for step in steps:
        rows += step
        firsts.append(len(rows))
    return _Counted(rows, np.array(firsts, np.int64))
