"""The memory of a sharded array: its own or borrowed, and whether its halos are fresh.

A slice that moves nothing reads the memory of its source until somebody might write to it.  It has the values of the
time when it was taken, always: it gets memory of its own before the source or the slice is written, and before the
program gets a numpy view of either, through which it may write at any time.  An array of which the program has had a
view lends nothing from then on.  All of this is local: nothing is sent.

    b = a[1:]      b reads a's memory
    a += 1         b gets a copy first
    b.core         b gets a copy first, and lends nothing from then on

Halos count as fresh from an exchange until the next write that is marked.  Of an array of which the program has had a
view, a `Witness` finds writes that are not.
"""

from __future__ import annotations

from typing import Self
from weakref import ref

import numpy as np

from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.plan.follow_ups import FreshnessNotes
from spmd_grid.halo.witness import Witness
from spmd_grid.typing import MultiIndex

__all__ = ["Memory"]

_FEW_LOANS = 16


class Memory:
    """The local array of a sharded array: memory of its own, or of the array of which it is a slice."""

    __slots__ = (
        "__weakref__",
        "_coords",
        "_grid",
        "_layout",
        "_lender",
        "_loans",
        "_local",
        "_mark",
        "_notes",
        "_refreshed",
        "_version",
        "_was_seen",
        "_witness",
    )

    _coords: MultiIndex
    _grid: ProcessGrid
    _layout: Layout
    _lender: Memory | None  # whose memory it is, if it is not its own
    _loans: list[ref[Memory]] | None  # slices that read this memory
    _local: np.ndarray
    _mark: int  # of the instruction that made it: see `temporaries`
    _notes: tuple[FreshnessNotes, ...]  # of the halo exchanges that update it
    _refreshed: int  # the version of which the halos are copies
    _version: int  # the number of calls of `mark_dirty`, plus 1
    _was_seen: bool  # whether the program may have a view of it
    _witness: Witness | None  # of the last refresh, if the program may have a view

    def _hold(self, local: np.ndarray, layout: Layout, grid: ProcessGrid) -> None:
        self._local = local
        self._layout = layout
        self._grid = grid
        self._mark = 0
        self._coords = grid.own_coords
        self._version = 1
        self._refreshed = 0
        self._lender = self._loans = None
        self._was_seen = False
        self._witness = None
        self._notes = ()

    @property
    def stored(self) -> np.ndarray:
        """The local array, halos included, to be read within an operation: never written, kept or handed out."""
        return self._local

    @property
    def stored_core(self) -> np.ndarray:
        """As ``core``, to be read within an operation: never written, kept or handed out."""
        return self._local[self._layout.core_key(self._coords)]

    @property
    def is_alone(self) -> bool:
        """Whether no slice reads this memory, none of it is borrowed, and the program has had no view of it.  Local."""
        return self._lender is None and not self._loans and not self._was_seen

    def stored_to_write(self) -> np.ndarray:
        """The local array, halos included, to be written within an operation.  Local."""
        if self._lender is not None:
            self._get_own_memory()
        if self._loans:
            self._end_loans()
        return self._local

    def memory_to_overwrite(self) -> np.ndarray:
        """As `stored_to_write`, for an array whose cells will all be written: what it borrows is not copied."""
        if self._lender is not None:
            self._local = self._grid.allocate(self._local.shape, self._local.dtype)
            self._lender = None
        return self.stored_to_write()

    def core_to_write(self) -> np.ndarray:
        """As ``core``, to be written within an operation.  Local."""
        return self.stored_to_write()[self._layout.core_key(self._coords)]

    def _seen_by_program(self) -> np.ndarray:
        """The local array, to be handed out."""
        local = self.stored_to_write()
        if not self._was_seen:
            self._was_seen = True
            if self._refreshed == self._version:
                self._keep_witness()
        return local

    def lend(self, borrower: Memory) -> None:
        """Let ``borrower``, whose local array is a view of this one, read it until it is written, or give it a copy.

        It gets a copy at once of small parts, which would keep all of this memory alive, and if the program may have a
        view of this memory.  Local.
        """
        lender = self if self._lender is None else self._lender
        if lender._was_seen or 2 * borrower._local.nbytes < lender._local.nbytes:
            borrower._get_own_memory()
            return
        loans = lender._loans
        if loans is None:
            loans = lender._loans = []
        elif len(loans) >= _FEW_LOANS and not len(loans) & (len(loans) - 1):  # a power of two: seldom, if many are read
            loans[:] = [loan for loan in loans if loan() is not None]
        loans.append(ref(borrower))
        borrower._lender = lender

    def _get_own_memory(self) -> None:
        shared = self._local
        own = self._grid.allocate(shared.shape, shared.dtype)
        own[...] = shared
        self._local, self._lender = own, None

    def _end_loans(self) -> None:
        loans, self._loans = self._loans, None
        for loan in loans or ():
            borrower = loan()
            if borrower is not None and borrower._lender is self:
                borrower._get_own_memory()

    # -- halos -----------------------------------------------------------------------------------------------

    def mark_dirty(self) -> None:
        """Mark the core as changed by the program, through ``core`` or ``local``: its halos are then no longer fresh.

        Local, called by every process after such writes.  What this package writes itself, by ``a[...] = b``,
        ``a += b`` or ``out=a``, it marks itself.  Shifted slices such as ``a[1:]`` read fresh halos as they are, and
        update others first; they raise MismatchError where they would read halos that unmarked writes of this process
        have made stale.  A `HaloExchange` called with ``only_dirty=True`` skips arrays that have not been marked
        since; for it alone, a process need mark its own writes only.
        """
        if self._loans:
            self._end_loans()
        self._version += 1

    @property
    def halos_are_fresh(self) -> bool:
        """Whether halo cells in the domain are known to equal the cells that they are copies of.

        Alike on every process.  They are after `update_halo` and `reshard`, and in arrays of `spmd_grid.from_global`,
        `spmd_grid.from_function` and `spmd_grid.random`, until the next write or call of `mark_dirty`.  After
        `HaloExchange.update` they are while slices read them: see `FreshnessNotes`.
        """
        return self._refreshed == self._version

    def with_fresh_halos(self) -> Self:
        """The array itself, of which all cells in the domain have just been set, those of halos included.  Local."""
        self._refreshed = self._version
        if self._was_seen:
            self._keep_witness()
        for notes in self._notes:
            notes.begin()
        return self

    def _keep_witness(self) -> None:
        if self._layout.sharding.halo_sizes is not None:
            self._witness = Witness(self._local, self._layout, self._coords)

    def fresh_halos_hold(self) -> bool:
        """Whether this process has written no shared cell since halos, which count as fresh, were filled.

        Local, called before a slice reads halos.  Only this process knows the answer.
        """
        if self._notes:
            for notes in self._notes:
                notes.are_read()
        return self._witness is None or self._witness.agrees(self._local)

    def follow_exchange(self, notes: FreshnessNotes) -> None:
        """Take part in the ``notes`` of a halo exchange, which updates this array from now on.  Local."""
        self._notes = (*[each for each in self._notes if each is not notes and not each.is_over], notes)

    def forget_freshness(self) -> None:
        """Let halos no longer count as fresh.  Local, called alike by every process."""
        self._refreshed = 0
