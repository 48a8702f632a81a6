"""Parts of the package that lower parts hand out: the package itself offers them, and they are loaded at first use."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

__all__ = ["offer", "part"]

_OFFERED: dict[str, Callable[[], ModuleType]] = {}


def offer(name: str, load: Callable[[], ModuleType]) -> None:
    """Make ``load()`` the part ``name``.  Local."""
    _OFFERED[name] = load


def part(name: str) -> ModuleType:
    """The part ``name``, loaded if it is not yet.  Local."""
    return _OFFERED[name]()
