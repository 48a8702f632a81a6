"""Activities of processes, for reports."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Activity"]


class Activity(Protocol):
    """Something that can describe what a process is doing; reports ask it, hot calls only store it."""

    def describe(self) -> str: ...
