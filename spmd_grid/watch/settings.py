"""What the environment asks to be watched."""

from __future__ import annotations

import os
from typing import NamedTuple

from spmd_grid.errors import TransportError

__all__ = ["Settings"]


class Settings(NamedTuple):
    """What is watched: ``check`` (the checking mode), ``timeout`` (seconds a wait may take), ``trace`` (a folder).

    Anything of it makes processes record what they do.
    """

    check: bool = False
    timeout: float | None = None
    trace: str | None = None

    @classmethod
    def from_environment(cls, check: bool = False) -> Settings:
        """``SPMD_GRID_CHECK`` (1 or 0; ``check`` where it is not set), ``SPMD_GRID_TIMEOUT``, ``SPMD_GRID_TRACE``.

        Local.  Raises TransportError for what they cannot mean.
        """
        words = {"": check, "0": False, "1": True}
        text = os.environ.get("SPMD_GRID_CHECK", "").strip()
        if text not in words:
            raise TransportError(f"SPMD_GRID_CHECK={text!r}; it must be 1 (check every operation) or 0")
        return cls(words[text], _seconds(), os.environ.get("SPMD_GRID_TRACE", "").strip() or None)

    @property
    def records(self) -> bool:
        """Whether processes have to record what they do."""
        return self.check or self.timeout is not None or self.trace is not None


def _seconds() -> float | None:
    text = os.environ.get("SPMD_GRID_TIMEOUT", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise TransportError(f"SPMD_GRID_TIMEOUT={text!r}; it must be the seconds that an operation may wait, above 0")
    return seconds
