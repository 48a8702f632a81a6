"""Calls of an operation that have a quick form, found by the objects that they are made with.

Python takes as long to find a prepared call by its arguments as for all the rest of a small operation.  Most calls are
made with the objects of an earlier call; compiled code knows these by their addresses
(``kernels/protocol/known_call.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.asked_path import changes

__all__ = ["KnownCalls", "find_quick_run"]

_MOST_LEARNED = 64  # then a program makes new objects for each call, and to learn them does not pay


def find_quick_run(
    operation: Any, grid: ProcessGrid, grid_axes: Any, args: tuple, given: tuple
) -> Callable[..., Any] | None:
    """The quick form of a call, if it has one; compiled code knows it from then on by the objects ``given``.  Local.

    ``args``: the same arguments, as the call is kept by them, lists as tuples.  The ``_operate`` of ``operation`` finds
    known calls by itself.
    """
    try:
        axes = tuple(grid_axes) if type(grid_axes) is list else grid_axes
        key = operation.name, axes, args, tuple(map(type, args)), "", chosen_path(), ""
        run: Callable[..., Any] = grid.calls[key].quick.run
    except (KeyError, TypeError, AttributeError):
        return None
    known: KnownCalls | None = vars(operation).get("_known")
    if known is None:
        known = operation._known = KnownCalls(operation._operate)
        operation._operate = known.operate
    known.learn(grid, grid_axes, given, run)
    return run


class _Kept:
    """Keeps the objects whose addresses are known, those in lists too; a grid holds it for its known calls.

    When it ends with the grid, all calls become unknown.
    """

    def __init__(self, *things: Any):
        self._things, self._changes = things, changes

    def __del__(self) -> None:
        self._changes[0] += 1


class KnownCalls:
    """The known calls of one operation: ``operate(x, grid, grid_axes, args, out)`` leaves all others to ``slow``."""

    def __init__(self, slow: Callable[..., Any]):
        self._learned, self._slow = 0, slow
        self._head = head = np.zeros(at.KNOWN_ROWS + at.MOST_KNOWN_CALLS * at.ROW_WORDS, np.int64)
        head[at.KNOWN_SLOW], head[at.KNOWN_CHANGES] = id(slow), kernels.address_of(changes)
        head[at.KNOWN_TYPE], head[at.KNOWN_LIST] = object.__basicsize__ - 8, id(list)
        self.operate: Callable[..., Any] = kernels.new_known_call(kernels.address_of(head), self)

    def learn(self, grid: ProcessGrid, grid_axes: Any, args: tuple, run: Callable[..., Any]) -> None:
        """Let calls with these objects be made by ``run(x, out)``.  Local."""
        if self._learned >= _MOST_LEARNED or len(args) >= at.MOST_THINGS:
            return
        things = [_words_of(thing) for thing in (grid_axes, *args)]
        if not all(things):
            return
        head, count = self._head, int(self._head[at.KNOWN_COUNT])
        if head[at.KNOWN_AT] != changes[0]:
            head[at.KNOWN_AT], count = changes[0], 0
        number = count if count < at.MOST_KNOWN_CALLS else self._learned % at.MOST_KNOWN_CALLS
        row = head[at.KNOWN_ROWS + number * at.ROW_WORDS :][: at.ROW_WORDS]
        row[at.ROW_GRID], row[at.ROW_RUN], row[at.ROW_NUMBER] = id(grid), id(run), len(args)
        for i, words in enumerate(things):
            start = at.ROW_THINGS + i * at.THING_WORDS
            row[start : start + at.THING_WORDS] = 0
            row[start : start + len(words)] = words
        grid.known.append(_Kept(run, *(tuple(each) if type(each) is list else each for each in (grid_axes, *args))))
        self._learned += 1
        head[at.KNOWN_COUNT] = max(count, number + 1)


def _words_of(thing: Any) -> list[int]:
    """The words that compiled code compares with an object (``THING_*``); none if it may change in another way."""
    if type(thing) in (list, tuple) and len(thing) <= at.MOST_ITEMS and all(type(item) in (int, str) for item in thing):
        return [id(thing) if type(thing) is tuple else 0, id(type(thing)), len(thing), *map(id, thing)]
    try:
        hash(thing)
    except TypeError:
        return []
    return [id(thing)]
