"""Events: actions on the hosts at given times while a command runs on them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Event", "due_events"]


@dataclass
class Event:
    """``when``: seconds since the start, a text of the output, or TEXT+SECONDS after it."""

    when: str
    action: str
    due: float | None = None  # seconds since the start

    def __post_init__(self) -> None:
        text, _, delay = f"+{self.when}".rpartition("+")
        try:
            self.text, self.delay = text[1:], float(delay)
        except ValueError:  # no number: all of it is a text
            self.text, self.delay = self.when, 0.0

    def is_due(self, now: float, output: str) -> bool:
        if self.due is None and self.text in output:
            self.due = now + self.delay if self.text else self.delay
        return self.due is not None and now >= self.due


def due_events(events: list[Event], now: float, output: str) -> list[Event]:
    """Takes those events from ``events`` that are due, in the order of their times."""
    found = sorted((event for event in events if event.is_due(now, output)), key=lambda event: event.due or 0.0)
    for event in found:
        events.remove(event)
    return found
