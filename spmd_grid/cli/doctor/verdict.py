"""One line of the doctor's table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAILS", "OK", "SLOW", "Check"]

OK, SLOW, FAILS = "ok", "slow", "fails"


@dataclass(frozen=True)
class Check:
    """The subject of a check, its finding, and advice if it is not ok."""

    verdict: str
    name: str
    value: str
    advice: str = ""
