"""The mark of a dimension that propagation may cut further."""

from __future__ import annotations

from typing import Final

__all__ = ["OPEN"]


class _Open:
    """The type of `OPEN`, of which there is one.  Local."""

    def __repr__(self) -> str:
        return "OPEN"

    def __reduce__(self) -> str:
        return "OPEN"


OPEN: Final = _Open()
"""In a dimension's list of grid axes, last: propagation may add axes after those that are listed."""
