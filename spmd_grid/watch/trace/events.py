"""The events in a trace's file, of which nothing is trusted: those of other shapes are refused before they are used."""

from __future__ import annotations

from typing import Any

from spmd_grid.formatting import printable

__all__ = ["MOST_RANKS", "as_event"]

MOST_RANKS = 1 << 20  # of a trace that is read
_MOST_COUNT = 1 << 63
_MOST_TIME = 1e18  # microseconds
_TEXTS = ("call", "where", "path", "series")


def as_event(event: Any) -> dict[str, Any] | None:
    """An event with known entries of the right types; None for what is no event of a trace.  Local.

    Texts are printable.  Raises TypeError, LookupError and AttributeError.
    """
    if not isinstance(event, dict) or event.get("ph") not in ("M", "X"):
        return None
    args = event["args"]
    if event["ph"] == "M":
        if event["name"] == "lost":
            return {**event, "args": {"count": _count(args["count"])}}
        if event["name"] != "thread_name":
            return {"ph": "M", "name": _text(event["name"]), "args": {}}
        known = {"name": _text(args["name"]), "machine": _text(args.get("machine", "")), "clock": 0.0, "size": 0}
        known |= {key: _time(args[key]) for key in ("clock", "offset") if key in args}
        known |= {"size": _count(args["size"], MOST_RANKS + 1)} if "size" in args else {}
        return {**event, "args": known}
    if args.get("turn") == 0:  # a failed update in a compiled loop, which moved nothing
        args = {"call": args["call"], "where": args["where"], "failed": True}
    known = {**args, "call": args["call"], "where": args["where"]}
    known |= {key: _text(known[key]) for key in _TEXTS if key in known}
    known |= {"turn": _count(args["turn"])} if "turn" in args else {}
    known |= {"awaits": [_count(each, MOST_RANKS) for each in args["awaits"]]} if "awaits" in args else {}
    if "sent" in args:
        known["sent"] = {str(_count(int(peer), MOST_RANKS)): _count(n) for peer, n in args["sent"].items()}
    times = {"ts": _time(event["ts"]), "dur": _time(event["dur"])}
    return {**event, **times, "name": _text(event["name"]), "args": known}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return printable(value)


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST_TIME:
        raise TypeError
    return value


def _count(value: Any, stop: int = _MOST_COUNT) -> int:
    if type(value) is not int or not 0 <= value < stop:
        raise TypeError
    return value
