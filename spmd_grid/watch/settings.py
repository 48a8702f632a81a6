"""Settings of watching: requested by the environment, and by the program itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from spmd_grid.errors import TransportError
from spmd_grid.numerals import MOST_SECONDS, seconds, shown

__all__ = ["Settings"]


class Settings(NamedTuple):
    """Settings of watching: ``check`` (checking mode), ``timeout`` (seconds a wait may take), ``trace`` (a folder).

    Each of them makes processes record their operations.
    """

    check: bool = False
    timeout: float | None = None
    trace: str | None = None

    @classmethod
    def from_environment(cls, check: bool = False) -> Settings:
        """Read ``SPMD_GRID_CHECK`` (1 or 0; ``check`` if it is not set), ``SPMD_GRID_TIMEOUT`` and ``SPMD_GRID_TRACE``.

        Local.  Raises TransportError for invalid values.
        """
        values = {"": check, "0": False, "1": True}
        text = os.environ.get("SPMD_GRID_CHECK", "").strip()
        if text not in values:
            raise TransportError(f"SPMD_GRID_CHECK={text!r}; it must be 1 (check every operation) or 0")
        return cls(values[text], _seconds(), os.environ.get("SPMD_GRID_TRACE", "").strip() or None)

    def asked(self, check: bool | None, timeout: float | None) -> Settings:
        """These settings with those that a program requests itself in their place; None keeps a setting.

        Local.  Raises TransportError for invalid values.

        >>> Settings(timeout=60.0).asked(True, None)
        Settings(check=True, timeout=60.0, trace=None)
        """
        if check is not None and not isinstance(check, bool):
            raise TransportError(f"check={check!r}; it must be True, False, or None for what SPMD_GRID_CHECK says")
        if timeout is not None and not _is_limit(timeout):
            raise TransportError(
                f"timeout={timeout!r}; it must be the seconds that an operation may wait, above 0, or None for what"
                " SPMD_GRID_TIMEOUT says"
            )
        return Settings(
            self.check if check is None else check,
            self.timeout if timeout is None else float(timeout),
            self.trace,
        )

    @classmethod
    def joined(cls, all_settings: Sequence[Settings]) -> Settings:
        """Join the settings of several processes: all that they request, with the least of their time limits.

        >>> Settings.joined([Settings(True), Settings(False, 60.0), Settings(False, 5.0)])
        Settings(check=True, timeout=5.0, trace=None)
        """
        limits = [each.timeout for each in all_settings if each.timeout is not None]
        traces = [each.trace for each in all_settings if each.trace is not None]
        return cls(
            any(each.check for each in all_settings),
            min(limits) if limits else None,
            traces[0] if traces else None,
        )

    @property
    def records(self) -> bool:
        """Whether processes must record their operations."""
        return self.check or self.timeout is not None or self.trace is not None


def _seconds() -> float | None:
    text = os.environ.get("SPMD_GRID_TIMEOUT", "").strip()
    if not text:
        return None
    try:
        return seconds(text)
    except ValueError:
        raise TransportError(
            f"SPMD_GRID_TIMEOUT={shown(text)}; it must be the seconds that an operation may wait, above 0"
        ) from None


def _is_limit(limit: object) -> bool:
    return isinstance(limit, (int, float)) and not isinstance(limit, bool) and 0 < limit < MOST_SECONDS
