"""Bounded caches of prepared calls and of results that operations compute once."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["keep"]

_MOST_KEPT = 64

Key = TypeVar("Key")
Value = TypeVar("Value")


def keep(kept: dict[Key, Value], key: Key, value: Value, most: int = _MOST_KEPT) -> None:
    """Add to a bounded cache; a full one is emptied first.  Local."""
    if len(kept) >= most:
        kept.clear()
    kept[key] = value
