"""Bounded caches of what operations have worked out."""

from __future__ import annotations

__all__ = ["keep"]

_MOST_KEPT = 64


def keep(kept: dict, key, value, most: int = _MOST_KEPT) -> None:
    """Adds to a bounded cache; a full one starts anew.  Local."""
    if len(kept) >= most:
        kept.clear()
    kept[key] = value
