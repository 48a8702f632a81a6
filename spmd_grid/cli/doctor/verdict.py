"""One line of the doctor's table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAILS", "OK", "SLOW", "Check"]

OK, SLOW, FAILS = "ok", "slow", "fails"


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and what to do about it where it is not ok."""

    verdict: str
    name: str
    value: str
    advice: str = ""
