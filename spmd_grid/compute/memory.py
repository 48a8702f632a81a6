"""The memory of a sharded array: its own or borrowed, and whether its halos are fresh.

A slice that moves nothing reads the memory of its source until one of them may be written.  It keeps the values that it
had when it was taken: it gets memory of its own before the source or the slice is written, and before the program gets
a numpy view of either, through which it may write at any time.  Once the program has had a view of an array, the array
lends nothing.  All of this is local: nothing is sent.

    b = a[1:]      b reads a's memory
    a += 1         b gets a copy first
    b.core         b gets a copy first, and lends nothing from then on

An array keeps the slices that instructions of the program have taken of it, and gives them again, as they are, while
it is not written and nothing else refers to them (see `temporaries`).

Halos count as fresh from an exchange until the next write that is marked.  Once the program has had a view of an array,
a `BorderCopy` finds writes that are not marked.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Self
from weakref import ref

import numpy as np

from spmd_grid.compute.temporaries import Site
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.border_copy import BorderCopy
from spmd_grid.halo.kept_updates import KeptUpdate
from spmd_grid.halo.plan.follow_ups import FreshnessNotes
from spmd_grid.typing import MultiIndex

__all__ = ["ALONE", "Memory"]

_FEW_LOANS = 16
_MOST_SLICES = 32  # that an array keeps


def _references() -> tuple[int, int]:
    """The number of references that `getrefcount` finds to a thing that a dict and a variable hold."""
    kept = {1: object()}
    found = kept.get(1)
    in_variable = getrefcount(found)
    del found
    return in_variable, max(map(getrefcount, kept.values()))


# Those of an array to which nothing refers but its keeper, and a variable; then without that.  A second thread that
# finds it adds one, so at most one of them finds it alone.
ALONE, _KEPT_ALONE = _references()


class Memory:
    """The local array of a sharded array: memory of its own, or of the array of which it is a slice.

    Modules of this package read its attributes with an underscore where a property would cost too much.
    """

    __slots__ = (
        "__weakref__",
        "_border_copy",
        "_coords",
        "_grid",
        "_key",
        "_layout",
        "_lender",
        "_loans",
        "_local",
        "_mark",
        "_notes",
        "_reads_halos",
        "_refresh",
        "_refreshed",
        "_slices",
        "_version",
        "_was_seen",
        "is_kept",
    )

    _coords: MultiIndex
    _grid: ProcessGrid
    _key: object  # of a slice that is kept
    _layout: Layout
    _lender: ref[Memory] | None  # whose memory it is, if it is not its own
    _loans: list[ref[Memory]] | None  # slices that read this memory
    _local: np.ndarray
    _mark: int  # of the instruction that made it: see `temporaries`
    _notes: tuple[FreshnessNotes, ...]  # of the halo exchanges that update it
    _reads_halos: bool  # of a slice: whether some device reads it from halos
    _refresh: KeptUpdate | None  # that has refreshed its halos, and may do so by compiled functions
    _refreshed: int  # the version of which the halos are copies
    _slices: dict[Site, Any] | None  # that are given again
    _version: int  # the number of calls of `mark_dirty`, plus 1
    _was_seen: bool  # whether the program may have a view of it
    _border_copy: BorderCopy | None  # of the last refresh, if the program may have a view
    is_kept: bool  # whether the grid refers to it, as a result of a site

    def _hold(self, local: np.ndarray, layout: Layout, grid: ProcessGrid) -> None:
        self._local = local
        self._layout = layout
        self._grid = grid
        self._mark = 0
        self._coords = grid.own_coords
        self._version = 1
        self._refreshed = 0
        self._lender = self._loans = self._slices = self._refresh = None
        self._was_seen = self.is_kept = False
        self._border_copy = None
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
        if self._lender is not None or self._loans or self._was_seen:
            return False
        return not self._slices or self._slices_are_idle()

    def stored_to_write(self) -> np.ndarray:
        """The local array, halos included, to be written within an operation.  Local."""
        if self._lender is not None:
            self._get_own_memory()
        if self._loans or self._slices:
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
            self._slices = self._refresh = None
            if self._refreshed == self._version:
                self._keep_border_copy()
        return local

    def lend(self, borrower: Memory) -> None:
        """Let ``borrower``, whose local array is a view of this one, read it until it is written, or give it a copy.

        It gets a copy at once of small parts, which would keep all of this memory alive, and if the program may have a
        view of this memory.  Local.
        """
        lender = self if self._lender is None else self._lender()
        if lender is None:  # nothing writes there any more
            borrower._lender = self._lender
            return
        if lender._was_seen or 2 * borrower._local.nbytes < lender._local.nbytes:
            borrower._get_own_memory()
            return
        loans = lender._loans
        if loans is None:
            loans = lender._loans = []
        elif len(loans) >= _FEW_LOANS and not len(loans) & (len(loans) - 1):  # a power of two: seldom, if many are read
            loans[:] = [loan for loan in loans if loan() is not None]
        loans.append(ref(borrower))
        borrower._lender = ref(lender)

    def keep_slice(self, site: Site, key: object, found: Memory) -> None:
        """Give ``found`` again where ``site`` takes the cells of ``key``, if it reads this memory.  Local."""
        if self._lender is not None or self._notes or found._lender is None or found._lender() is not self:
            return
        loans, slices = self._loans, self._slices
        if not loans or loans[-1]() is not found:
            return
        if slices is None:
            slices = self._slices = {}
        elif len(slices) >= _MOST_SLICES or site in slices:  # the one before is in use
            loans[:0] = [ref(slices.pop(each)) for each in ([site] if site in slices else [*slices])]
        loans.pop()
        found._key = key
        slices[site] = found

    def _get_own_memory(self) -> None:
        shared = self._local
        own = self._grid.allocate(shared.shape, shared.dtype)
        own[...] = shared
        self._local, self._lender = own, None
        self._slices = self._refresh = None

    def _end_loans(self) -> None:
        loans, self._loans = self._loans, None
        borrowers = [loan() for loan in loans or ()]
        slices = self._slices
        if slices and not self._slices_are_idle():
            for site in [*slices]:
                kept = slices.get(site)
                if getrefcount(kept) != ALONE:
                    borrowers.append(slices.pop(site, None))
        for borrower in borrowers:
            if borrower is not None and borrower._lender is not None and borrower._lender() is self:
                borrower._get_own_memory()

    def _slices_are_idle(self) -> bool:
        """Whether nothing but this array refers to the slices that it keeps."""
        return max(map(getrefcount, self._slices.values())) == _KEPT_ALONE  # type: ignore[union-attr]  # it has some

    # -- halos -----------------------------------------------------------------------------------------------

    def mark_dirty(self) -> None:
        """Mark the core as changed by the program, through ``core`` or ``local``: its halos are then no longer fresh.

        Local, called by every process after such writes.  What this package writes itself, by ``a[...] = b``,
        ``a += b`` or ``out=a``, it marks itself.  Shifted slices such as ``a[1:]`` read fresh halos as they are, and
        update others first; they raise MismatchError where they would read halos that unmarked writes of this process
        have made stale.  A `HaloExchange` called with ``only_dirty=True`` skips arrays that have not been marked
        since; for it alone, a process need mark its own writes only.
        """
        if self._loans or (self._slices and not self._slices_are_idle()):
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
            self._keep_border_copy()
        for notes in self._notes:
            notes.begin()
        return self

    def _keep_border_copy(self) -> None:
        if self._layout.sharding.halo_sizes is not None:
            self._border_copy = BorderCopy(self._local, self._layout, self._coords)

    def fresh_halos_hold(self) -> bool:
        """Whether this process has written no shared cell since halos, which count as fresh, were filled.

        Local, called before a slice reads halos.  Only this process knows the answer.
        """
        if self._notes:
            for notes in self._notes:
                notes.are_read()
        return self._border_copy is None or self._border_copy.agrees(self._local)

    def follow_exchange(self, notes: FreshnessNotes) -> None:
        """Take part in the ``notes`` of a halo exchange, which updates this array from now on.  Local."""
        self._slices = self._refresh = None
        self._notes = (*[each for each in self._notes if each is not notes and not each.is_over], notes)

    def forget_freshness(self) -> None:
        """Let halos no longer count as fresh.  Local, called alike by every process."""
        self._refreshed = 0
