"""The channel through which the lifelines of processes exchange messages."""

from __future__ import annotations

from typing import Protocol

__all__ = ["SideChannel"]


class SideChannel(Protocol):
    """Small messages that arrive whatever the program does."""

    def post(self, message: bytes, other: int) -> None: ...

    def post_all(self, message: bytes) -> None: ...

    def poll(self) -> list[tuple[int, bytes]]: ...

    def all_sent(self) -> bool: ...

    def abort(self, code: int) -> None: ...
