"""Views: arrays that show cells of another, their *source*, as numpy's slices, transposes and reshapes do.

What is written to a view is written to its source, and a view shows what is written to the source later.  A view
remembers the steps by which it came; those of a view of a view begin at the first source.  There are two kinds:

- a view *in place* is a slice that moves nothing: its memory is the source's, so that nothing has to be done;
- all others hold cells of their own, which have moved.  They are read anew, by the same steps, where the source was
  written since; all processes count writes alike, so all find the same.  A write to them goes on to the source: the
  steps are undone.

    x[0][1] = 5     x[0] is read, its cell 1 written, and x[0] put back into x

A view that has all cells of its source, such as ``x.T``, becomes the source itself when it is written, and the other
one its view: so a program that goes on with one of the two pays nothing.

Views refer to a *twin* of the source, an array with the same memory that the program never sees.  So the source can
keep slices (see `temporaries`) without keeping itself alive, and a view outlives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import ref

import numpy as np

from spmd_grid.errors import OutputError
from spmd_grid.functions.ways import Sliced, cells_as_numpy_has_them, read_only
from spmd_grid.transport.gate import Gate

__all__ = [
    "View",
    "attach",
    "bring_up_to_date",
    "cells_of",
    "detach",
    "is_part",
    "refuse_read_only",
    "write_back",
]


class Step(Protocol):
    """One way from a source to a view."""

    def read(self, source: Any) -> Any:
        """The view.  Collective over the source's grid, as the two others."""

    def write(self, source: Any, view: Any) -> None:
        """Write the cells of the view to the source."""

    def inverse(self) -> Step | None:
        """The way back, where the view has all cells of the source; else None.  Local."""


class View:
    """The source of a view, as a twin, the steps from there, and the version of the source that it shows."""

    __slots__ = ("is_in_place", "is_read_only", "source", "steps", "version")

    def __init__(self, source: Any, steps: tuple[Step, ...], is_in_place: bool, is_read_only: bool):
        self.source = source
        self.steps = steps
        self.is_in_place = is_in_place
        self.is_read_only = is_read_only
        self.version: int = source._version

    @property
    def has_all_cells(self) -> bool:
        """Whether the view and the source have the same cells, so that each may be the view of the other."""
        return all(step.inverse() is not None for step in self.steps)


def twin_of(array: Any) -> Any:
    """The array with the memory of ``array`` to which its views refer.  Local."""
    twin = array._twin
    if twin is None:
        twin = array._twin = type(array)(array._local, array._layout, array._grid)
        twin._twin = ref(array)
    return array if type(twin) is ref else twin


def attach(
    result: Any, source: Any, steps: tuple[Step, ...], is_in_place: bool = False, is_read_only: bool = False
) -> Any:
    """``result``, from now on a view of ``source`` by ``steps``.  Local."""
    view = source._view
    is_read_only = is_read_only or bool(source._layout.sharding.partial_axes)
    if view is None:
        result._view = View(twin_of(source), steps, is_in_place, is_read_only or not source._local.flags.writeable)
    else:
        result._view = View(
            view.source, (*view.steps, *steps), is_in_place and view.is_in_place, is_read_only or view.is_read_only
        )
        result._view.version = view.version
    return result


def cells_of(array: Any) -> np.ndarray | None:
    """An array with the strides that numpy's has, of which no cell may be read; None of read-only views.  Local."""
    view = array._view
    source, steps = (array, ()) if view is None else (view.source, view.steps)
    return cells_as_numpy_has_them(source, steps, source._cells)


def detach(result: Any) -> Any:
    """``result`` with memory of its own, and no source.  Local."""
    if result._view is not None:
        if result._borrows:
            result._get_own_memory()
        result._view = None
    return result


def bring_up_to_date(array: Any) -> None:
    """Let a view show what its source holds.  Collective over the grid where the source was written, else local."""
    view = array._view
    source = view.source
    if source._view is not None:
        bring_up_to_date(source)
    if view.version == source._version:
        return
    if not view.is_in_place:
        with _within(array._grid.process.gate):
            found = source
            source.forget_freshness()  # the program may have written to halos
            for step in view.steps:
                found = step.read(found)
            _take_over(array, found)
    view.version = source._version


def write_back(array: Any) -> None:
    """Bring what was written to a view to its source.  Collective over the grid where cells move, else local."""
    view = array._view
    source = view.source
    if view.is_in_place:
        source.mark_dirty()
    elif source._view is None and view.has_all_cells:
        back: Any = tuple([step.inverse() for step in reversed(view.steps)])
        array._cells = cells_of(array)
        _set_view(array, None)
        twin_of(array)._cells = array._cells
        other = View(twin_of(array), back, False, False)
        other.version = -1  # which no array has
        _set_view(source, other)
        return
    else:
        array._view = None  # it is not read anew meanwhile
        try:
            with _within(array._grid.process.gate):
                part = source
                for step in view.steps[:-1]:
                    part = step.read(part)
                view.steps[-1].write(part, array)
        finally:
            array._view = view
    view.version = source._version


def is_part(array: Any, key: Any, value: Any) -> bool:
    """Whether ``value`` is the view ``array[key]``, and shows what it holds.  Local."""
    view, twin = value._view, array._twin
    if twin is None or view.source is not twin or len(view.steps) != 1 or not isinstance(view.steps[0], Sliced):
        return False
    is_current = view.is_in_place or view.version == twin._version
    return is_current and twin._view is None and view.steps[0].has_key(key)


def refuse_read_only(op: str, array: Any) -> None:
    """Refuses a write to a view that cannot reach its source, or to read-only memory.  Raises OutputError."""
    if not array.is_writeable:
        is_view = array._view is not None and array._view.is_read_only
        raise OutputError(read_only(op) if is_view else f"{op}: the array is read-only; it must be writeable")


def _set_view(array: Any, view: View | None) -> None:
    """Make an array and its twin, or a twin and its array, a view, or none."""
    other = twin_of(array)
    if other is array:
        other = array._twin()
    for each in (array, other):
        if each is not None:
            each._view = view
            each._slices = each._refresh = None


def _take_over(array: Any, found: Any) -> None:
    """Give ``array`` the cells of ``found``, which has the same shape.  Collective over the grid if cells move."""
    is_alike = array._layout == found._layout
    if is_alike and array._twin is None and not array._was_seen:
        array._local, array._borrows, array._reads_halos = found._local, found._borrows, found._reads_halos
        array._version += 1
        return
    if array._borrows:
        array._get_own_memory()
    view = array._view
    _set_view(array, None)  # a write to it is no write by the program
    try:
        if is_alike:  # which is local, as above: processes may differ in what the program has seen
            array.core_to_write()[...] = found.stored_core
            array.mark_dirty()
        else:
            array[...] = found
    finally:
        _set_view(array, view)


@contextmanager
def _within(gate: Gate) -> Iterator[None]:
    """Lets operations run, also within the one that this thread has begun, between its meetings."""
    is_inner = not gate.tokens and gate.is_passed_by_this_thread()
    if is_inner:
        gate.tokens.append(True)
    try:
        yield
    finally:
        if is_inner:
            gate.tokens.clear()
