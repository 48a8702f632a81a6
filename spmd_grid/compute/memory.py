"""The memory of a sharded array: its own or that of its source, and whether its halos are fresh.

A slice that moves nothing borrows the memory of its source.  If it reads no halos, it is a view in place, and may be
written there; else it gets memory of its own before it is written (see `views`).

An array keeps the slices that instructions of the program have taken of it, and gives them again, as they are, while
nothing else refers to them (see `temporaries`).

Halos count as fresh from an exchange until the next write that is marked.  Once the program has had a view of an array,
a `BorderCopy` finds writes that are not marked.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any, NoReturn, Self
from weakref import ref

import numpy as np

from spmd_grid.compute.temporaries import Site
from spmd_grid.compute.views import View, bring_up_to_date, refuse_read_only, write_back
from spmd_grid.errors import ImplicitGatherError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.border_copy import BorderCopy
from spmd_grid.halo.kept_updates import KeptUpdate
from spmd_grid.halo.plan.follow_ups import FreshnessNotes
from spmd_grid.typing import MultiIndex

__all__ = ["ALONE", "Memory"]

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
_TWIN_ALONE = 2  # of a twin to which one array refers, and `getrefcount`


class Memory:
    """The local array of a sharded array: memory of its own, or of the array of which it is a slice.

    Modules of this package read its attributes with an underscore where a property would cost too much.
    """

    __slots__ = (
        "__weakref__",
        "_border_copy",
        "_borrows",
        "_cells",
        "_coords",
        "_grid",
        "_key",
        "_layout",
        "_local",
        "_mark",
        "_notes",
        "_reads_halos",
        "_refresh",
        "_refreshed",
        "_slices",
        "_twin",
        "_version",
        "_view",
        "_was_seen",
        "is_kept",
    )

    _borrows: bool  # whether its memory is that of its source
    _cells: np.ndarray | None  # with the strides that numpy's array has, where it was a view
    _coords: MultiIndex
    _grid: ProcessGrid
    _key: object  # of a slice that is kept
    _layout: Layout
    _local: np.ndarray
    _mark: int  # of the instruction that made it: see `temporaries`
    _notes: tuple[FreshnessNotes, ...]  # of the halo exchanges that update it
    _reads_halos: bool  # of a slice: whether some device reads it from halos
    _refresh: KeptUpdate | None  # that has refreshed its halos, and may do so by compiled functions
    _refreshed: int  # the version of which the halos are copies
    _slices: dict[Site, Any] | None  # that are given again
    _twin: Any  # to which its views refer; of a twin itself, a weak reference to the array
    _version: int  # the number of calls of `mark_dirty`, plus 1
    _view: View | None  # of which array it shows cells, if it does
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
        self._cells = self._twin = self._view = self._slices = self._refresh = None
        self._borrows = self._reads_halos = self._was_seen = self.is_kept = False
        self._border_copy = None
        self._notes = ()

    @property
    def stored(self) -> np.ndarray:
        """The local array, halos included, to be read within an operation: never written, kept or handed out.

        Local, but of a view whose source was written since: see `views`.
        """
        if self._view is not None:
            bring_up_to_date(self)
        return self._local

    @property
    def stored_core(self) -> np.ndarray:
        """As ``core``, to be read within an operation: never written, kept or handed out."""
        return self.stored[self._layout.core_key(self._coords)]

    @property
    def is_alone(self) -> bool:
        """Whether it borrows no memory, and no view reads its own, nor the program.  Local."""
        if self._borrows or self._was_seen or self._view is not None:
            return False
        slices = self._slices
        if slices and max(map(getrefcount, slices.values())) != _KEPT_ALONE:
            return False
        return self._twin is None or getrefcount(self._twin) == _TWIN_ALONE + (len(slices) if slices else 0)

    @property
    def is_writeable(self) -> bool:
        """Whether `refuse_read_only` lets it pass.  Local."""
        return self._local.flags.writeable and (self._view is None or not self._view.is_read_only)

    def stored_to_write(self) -> np.ndarray:
        """The local array, halos included, to be written within an operation.  As `stored`.  Raises OutputError.

        `mark_dirty` follows, unless only halos are written: it brings what was written to the source of a view.
        """
        view = self._view
        if view is not None:
            refuse_read_only("write", self)
            bring_up_to_date(self)
            if self._borrows and not view.is_in_place:
                self._get_own_memory()
        return self._local

    def memory_to_overwrite(self) -> np.ndarray:
        """As `stored_to_write`, for an array whose cells will all be written: the old ones are not read."""
        view = self._view
        if view is None or view.is_in_place:
            return self.stored_to_write()
        refuse_read_only("write", self)
        if self._borrows:
            self._local = self._grid.allocate(self._local.shape, self._local.dtype)
            self._borrows = False
        return self._local

    def core_to_write(self) -> np.ndarray:
        """As ``core``, to be written within an operation.  Local."""
        return self.stored_to_write()[self._layout.core_key(self._coords)]

    def _seen_by_program(self) -> np.ndarray:
        """The local array, to be handed out: for reading only where a write could not reach the source of a view."""
        view = self._view
        if view is not None:
            bring_up_to_date(self)
            if view.is_read_only or not (view.is_in_place or view.has_all_cells):
                if self._borrows:  # halos of the source do not change with its cells
                    self._get_own_memory()
                found = self._local.view()
                found.flags.writeable = False
                return found
            if view.is_in_place:
                for each in (view.source, view.source._twin()):
                    if each is not None:
                        each._note_seen()
        self._note_seen()
        return self._local

    def _note_seen(self) -> None:
        if not self._was_seen:
            self._was_seen = True
            self._slices = self._refresh = None
            if self._refreshed == self._version:
                self._keep_border_copy()

    def keep_slice(self, site: Site, key: object, found: Memory) -> None:
        """Give ``found`` again where ``site`` takes the cells of ``key``, if it reads this memory.  Local."""
        if self._view is not None or self._notes or self._was_seen or not found._borrows:
            return
        slices = self._slices
        if slices is None:
            slices = self._slices = {}
        elif len(slices) >= _MOST_SLICES:
            slices.clear()
        found._key = key
        slices[site] = found

    def _get_own_memory(self) -> None:
        shared = self._local
        own = self._grid.allocate(shared.shape, shared.dtype)
        own[...] = shared
        self._local, self._borrows = own, False

    def __copy__(self) -> Self:
        """An array of the same layout with memory of its own.  Local, of a view as `stored`."""
        cells = self.stored
        own = self._grid.allocate(cells.shape, cells.dtype)
        own[...] = cells
        return type(self)(own, self._layout, self._grid, self.name)  # type: ignore[attr-defined, call-arg]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ImplicitGatherError(
            "a ShardedArray cannot be pickled, since a process holds its own cells only: .to_global() gathers the array"
            " (collective), and spmd_grid.save writes it to a checkpoint"
        )

    # -- halos -----------------------------------------------------------------------------------------------

    def mark_dirty(self) -> None:
        """Mark the core as changed by the program, through ``core`` or ``local``: its halos are then no longer fresh.

        Local, called by every process after such writes.  What this package writes itself, by ``a[...] = b``,
        ``a += b`` or ``out=a``, it marks itself.  Shifted slices such as ``a[1:]`` read fresh halos as they are, and
        update others first; they raise MismatchError where they would read halos that unmarked writes of this process
        have made stale.  A `HaloExchange` called with ``only_dirty=True`` skips arrays that have not been marked
        since; for it alone, a process need mark its own writes only.  Of a view it is collective: what was
        written goes on to its source.
        """
        self._version += 1
        if self._twin is not None:
            other = self._twin() if type(self._twin) is ref else self._twin
            if other is not None:
                other._version += 1
        if self._view is not None:
            write_back(self)

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
