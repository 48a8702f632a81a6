"""Messages that no process has received when the program ends, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from spmd_grid.formatting import count_text
from spmd_grid.watch.call_site import Site, site_text

__all__ = ["Sent", "lost_text"]

Sent: TypeAlias = tuple[str, Site]  # the call that sent a message, and its place in the program

_MOST_LINES = 4


def lost_text(sender: str, receiver: str, count: int, known: Iterable[Sent]) -> str:
    """The sentence that ``count`` messages were lost, with the lines that sent those that are ``known``.  Local."""
    lines = Counter(f"{text} at {site_text(site)}" for text, site in known)
    shown = [line if n == 1 else f"{line} ({n:,} times)" for line, n in list(lines.items())[:_MOST_LINES]]
    more = [f"{len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    by = f", sent by {', '.join(shown + more)}" if shown else ""
    return f"{receiver} never received {count_text(count, 'message')} of {sender}{by}"
