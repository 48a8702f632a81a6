"""Bounded caches of prepared calls and of results that operations compute once."""

from __future__ import annotations

from typing import TypeVar

from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["keep", "keep_call"]

_MOST_KEPT = 64
_MOST_CALLS = 512  # that a grid keeps

Key = TypeVar("Key")
Value = TypeVar("Value")


def keep(kept: dict[Key, Value], key: Key, value: Value, most: int = _MOST_KEPT) -> None:
    """Add to a bounded cache; a full one is emptied first.  Local."""
    if len(kept) >= most:
        kept.clear()
    kept[key] = value


def keep_call(grid: ProcessGrid, key: tuple, call: object) -> None:
    """Keep on ``grid`` a call prepared for the arguments in ``key``, if they are hashable."""
    try:
        keep(grid.calls, key, call, _MOST_CALLS)
    except TypeError:  # such as an unhashable callable
        pass
