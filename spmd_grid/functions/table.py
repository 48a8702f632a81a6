"""The table of rules: for each array function, how a call of it is cut into blocks, or which other functions it is.

A rule takes the arguments of the call and gives an `Application`.  It looks at shapes, dtypes and plain arguments only.
A function that is made of others needs no rule: it is written once, in numpy's calls, and registered as a composite.

>>> import numpy as np
>>> @composite(np.ptp)
... def ptp(a, axis=None):
...     return np.max(a, axis) - np.min(a, axis)
>>> kind_of(np.ptp)
'composite'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Entry", "composite", "entry_of", "kind_of", "rule"]


class Entry(NamedTuple):
    """What the table has for a function: its ``kind``, "rule" or "composite", and what to call."""

    kind: str
    call: Callable[..., Any]


_TABLE: dict[Callable, Entry] = {}


def rule(*functions: Callable) -> Callable[[Callable], Callable]:
    """Decorate the rule of ``functions``: called with their arguments, it gives an `Application`."""

    def register(call: Callable) -> Callable:
        _TABLE.update(dict.fromkeys(functions, Entry("rule", call)))
        return call

    return register


def composite(*functions: Callable) -> Callable[[Callable], Callable]:
    """Decorate a definition of ``functions`` by other array functions."""

    def register(call: Callable) -> Callable:
        _TABLE.update(dict.fromkeys(functions, Entry("composite", call)))
        return call

    return register


def entry_of(function: Callable) -> Entry | None:
    """The entry of a function, or None where the table has none."""
    return _TABLE.get(function)


def kind_of(function: Callable) -> str | None:
    """ "rule", "composite", or None."""
    entry = _TABLE.get(function)
    return None if entry is None else entry.kind
