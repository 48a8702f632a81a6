"""Operations that move boxes: what a member does once all facts are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.execute import FEW_MEMBERS, copy_from, next_tag, run_message, send_and_receive
from spmd_grid.exchange.header import Facts
from spmd_grid.exchange.meeting import COPIED_BYTES, LINE_BYTES, array_in_frame
from spmd_grid.exchange.memory import view_of
from spmd_grid.exchange.paths import DIRECT, INLINE, MESSAGE, MIXED
from spmd_grid.exchange.transfer import Receive, Transfer
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.ops.kept import keep
from spmd_grid.transport.communicator import Frames, tag_of
from spmd_grid.typing import Shape

__all__ = ["DirectCopies", "MemberArrays", "Movement", "fresh"]

# Arrays of up to this many bytes go through shared memory even where messages would need no packing.
_STAGED_BYTES = 1 << 21

# Smaller results come from the heap, which hands them out faster; the arena keeps larger ones warm, for others to read.
_ARENA_BYTES = 1 << 12


def fresh(grid, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A new array for a result, its contents anything.  Local."""
    n_bytes = dtype.itemsize
    for extent in shape:
        n_bytes *= extent
    return np.empty(shape, dtype) if n_bytes < _ARENA_BYTES else grid.allocate(shape, dtype)


class MemberArrays:
    """The members' arrays of one call, where this process can read them: where they lie, or in the frames.

    ``facts``: shapes and dtypes, alike on all members.  ``way``: the path of the call, as far as it suits the arrays.
    ``mixes``: whether some arrays may be read while messages carry others.
    """

    __slots__ = ("_call", "_facts", "_known", "way")

    def __init__(self, call, facts: Sequence[Facts], mixes: bool = False):
        self._call, self._facts = call, facts
        self._known: dict = {}
        self.way = call.path
        if self.way in (INLINE, MIXED):
            fits = all([fact.fits_inline for fact in facts])
            self.way = INLINE if fits else self.way if mixes and self.way is MIXED else MESSAGE

    def of(self, frames: Frames) -> list[np.ndarray | None] | None:
        """One array per member, valid until the next meeting of the group; None where messages have to carry all.

        None stands for a member that has no array, and, on the mixed way, for one that this process cannot read.
        """
        if self.way is MESSAGE:
            return None
        if frames.exposed is not None and self.way is DIRECT:
            return frames.exposed
        key = id(frames.data) if self.way is INLINE else frames.places
        try:
            return self._known[key]
        except KeyError:
            pass
        if self.way is INLINE:
            found = [
                None if fact.shape is None else array_in_frame(frames.data, member, fact)
                for member, fact in enumerate(self._facts)
            ]
        else:
            found = None if key is None else self._call.meeting.arrays(frames, self._facts)
        keep(self._known, key, found)
        return found

    def is_read_by(self, frames: Frames, member: int) -> bool:
        """Whether ``member`` reads this member's array by itself, on the mixed way.  Local."""
        return self._call.meeting.is_read_by(frames, self._facts, member)


class DirectCopies:
    """Copies what a transfer receives straight from the members' arrays; tables are made once for where they lie."""

    __slots__ = ("_tables", "_transfer")

    def __init__(self, transfer: Transfer):
        self._transfer = transfer
        self._tables: dict = {}

    def run(self, frames: Frames, arrays: Sequence[np.ndarray | None], target: np.ndarray | None) -> None:
        if target is None or not self._transfer.receives:
            return
        if frames.places is None:
            copy_from(self._transfer, arrays, target)
            return
        key = frames.places, target.strides
        found = self._tables.get(key)
        if found is None:
            table = self._table(arrays, target)
            found = table, kernels.address_of(table), table.shape[1], len(table)
            keep(self._tables, key, found)
        _, address, columns, rows = found
        kernels.copy_table(address, columns, rows, 0, kernels.address_of(target))

    def _table(self, arrays: Sequence[np.ndarray | None], target: np.ndarray) -> np.ndarray:
        start, rows = kernels.address_of(target), []
        for receive in self._transfer.receives:
            if arrays[receive.peer] is None:
                continue
            source, into = view_of(arrays[receive.peer], receive.source_box), view_of(target, receive.box)
            row = kernels.box_row(
                source.shape,
                source.itemsize,
                source.strides,
                kernels.address_of(source),
                into.strides,
                kernels.address_of(into) - start,
            )
            if row is not None:
                rows.append(row)
        return kernels.build_table(rows)


class StagedCopies:
    """Moves arrays that nobody else can read through shared memory, piece by piece.

    In each round every member posts a piece of its array, while others still copy theirs out of the one before.
    ``in_runs``: whether all boxes of all members are runs of their arrays.
    """

    def __init__(self, call, facts: Sequence[Facts], transfer: Transfer, in_runs: bool):
        self._call, self._facts, self._transfer = call, facts, transfer
        self._copies: list[tuple[Box | None, MemberArrays, DirectCopies]] = []
        self._most = max(fact.nbytes for fact in facts)
        self._in_runs = in_runs

    @property
    def is_better(self) -> bool:
        """Whether this beats messages.  Local, alike on all members.

        MPI copies a large message once, straight from array to array; but boxes that are no runs would be packed.
        """
        if self._call.path is not DIRECT or not self._call.meeting.stage_bytes:
            return False
        return not self._in_runs or self._most <= _STAGED_BYTES

    def run(self, x: np.ndarray | None, target: np.ndarray | None) -> None:
        """Collective over the group, after a meeting in which not all arrays could be read."""
        if not self._copies:
            self._copies = self._rounds()
        meeting = self._call.meeting
        for piece, arrays, copies in self._copies:
            frames = meeting.swap(None if piece is None else view_of(x, piece))
            copies.run(frames, arrays.of(frames), target)
            if frames.lent:
                meeting.depart(frames)

    def _rounds(self) -> list[tuple[Box | None, MemberArrays, DirectCopies]]:
        most = self._call.meeting.stage_bytes
        pieces = [
            []
            if fact.shape is None
            else list(pieces_of(Box.from_shape(fact.shape), most // max(fact.dtype.itemsize, 1)))
            for fact in self._facts
        ]
        rounds = []
        for number in range(max(map(len, pieces))):
            posted = [each[number] if number < len(each) else None for each in pieces]
            facts = [
                Facts(None, None) if box is None else Facts(box.shape, fact.dtype)
                for box, fact in zip(posted, self._facts, strict=True)
            ]
            receives = []
            for receive in self._transfer.receives:
                piece = posted[receive.peer]
                common = None if piece is None else receive.source_box.intersect(piece)
                if common is not None and not common.is_empty:
                    place = common.relative_to(receive.source_box.starts).shift(receive.box.starts)
                    receives.append(Receive(receive.peer, common.relative_to(piece.starts), place))
            transfer = replace(self._transfer, receives=tuple(receives))
            rounds.append((posted[self._transfer.rank], MemberArrays(self._call, facts), DirectCopies(transfer)))
        return rounds


class Movement:
    """Moves boxes of the members' arrays into a result of ``shape`` (None: this member has no result).

    ``in_runs``: whether all boxes of all members are runs of their arrays.  ``fill``: what cells that nobody sends
    hold.
    """

    __slots__ = (
        "call",
        "comm",
        "transfer",
        "shape",
        "dtype",
        "fill",
        "_arrays",
        "_copies",
        "_far",
        "_inline",
        "_staging",
    )

    def __init__(
        self,
        call,
        facts: list[Facts],
        transfer: Transfer,
        shape: Shape | None,
        dtype: np.dtype,
        in_runs: bool,
        fill=None,
    ):
        self.call = call
        self.comm = call.comm
        self.transfer = transfer
        self.shape = shape
        self.dtype = dtype
        self.fill = fill
        # In large groups MPI's own collectives, which are logarithmic, beat a message to every member of other nodes.
        mixes = transfer.pattern in ("pairwise", "all_to_all") or transfer.size <= FEW_MEMBERS
        self._arrays = MemberArrays(call, facts, mixes)
        self._copies = DirectCopies(transfer)
        self._inline: tuple = (None, ())
        self._far: dict = {}
        self._staging = StagedCopies(call, facts, transfer, in_runs)

    def run(self, x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> np.ndarray | None:
        target = self._target(out)
        arrays = self._arrays.of(frames)
        if arrays is None:
            if self._staging.is_better:
                self._staging.run(x, target)
            else:
                run_message(self.comm, self.transfer, x, target)
        elif self._arrays.way is INLINE:
            self._copy_inline(arrays, target)
        elif self._arrays.way is MIXED:
            self._run_mixed(x, arrays, target, frames)
        else:
            self._copies.run(frames, arrays, target)
            if frames.lent:
                self.call.meeting.depart(frames)
        return target

    @property
    def staging_bytes(self) -> int:
        """The most bytes beside x and the result that a run by memory holds."""
        return 2 * (LINE_BYTES + COPIED_BYTES)

    def describe(self) -> str:
        """What is moved, in words."""
        me, size = self.transfer.rank, self.dtype.itemsize
        out = sum(send.box.size for send in self.transfer.sends if send.peer != me) * size
        into = sum(receive.box.size for receive in self.transfer.receives if receive.peer != me) * size
        return f"sends {out} bytes to the other members and receives {into}"

    def steps(self, x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> Iterator[list]:
        """As ``run``, in steps that do not wait."""
        target = self._target(out)
        if self._arrays.way is INLINE:
            self._copy_inline(self._arrays.of(frames), target)
        else:
            yield from send_and_receive(self.comm, self.transfer, x, target, next_tag(self.comm))
        return target

    def _run_mixed(self, x, arrays: list[np.ndarray | None], target: np.ndarray | None, frames: Frames) -> None:
        """Copies what can be read while messages carry the rest."""
        far = self._far.get(frames.places)
        if far is None:
            me, transfer = self.transfer.rank, self.transfer
            sends = [s for s in transfer.sends if s.peer == me or not self._arrays.is_read_by(frames, s.peer)]
            receives = [receive for receive in transfer.receives if arrays[receive.peer] is None]
            far = replace(transfer, pattern="pairwise", sends=tuple(sends), receives=tuple(receives))
            keep(self._far, frames.places, far)
        steps = send_and_receive(self.comm, far, x, target, tag_of("blocking movements"))
        requests = next(steps)
        self._copies.run(frames, arrays, target)
        self.comm.wait_all(requests)
        next(steps, None)
        self.call.meeting.depart(frames)

    def _copy_inline(self, arrays: list[np.ndarray | None], target: np.ndarray | None) -> None:
        """Copies the receives out of the frames; where in them they lie is worked out once."""
        if target is None:
            return
        if self._inline[0] is not arrays:
            views = [(view_of(arrays[r.peer], r.source_box), r.box.slices()) for r in self.transfer.receives]
            self._inline = arrays, views
        for view, place in self._inline[1]:
            target[place] = view

    def _target(self, out: np.ndarray | None) -> np.ndarray | None:
        if self.shape is None:
            return None
        target = fresh(self.call.grid, self.shape, self.dtype) if out is None else out
        if self.fill is not None:
            target[...] = self.fill
        return target
