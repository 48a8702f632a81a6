"""The paths by which bytes move, and how to force one.

*direct*: members read one another's arrays.  *mixed*: members of one node do so, and messages go to the others.
*inline*: arrays lie in the frames that open an operation.  *message*: all arrays go in messages.

``auto`` takes *direct* where all members share memory and *mixed* elsewhere; small arrays go inline.
``SPMD_GRID_PATH`` or `forced_path` force a path; a forced *direct* falls back to *message* where memory is not shared.
Halos have two kinds of *direct*, *read* and *staged*, and two kinds of *message*, *packed* and *straight*; other
operations treat these as *direct* and *message*.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spmd_grid.errors import SimulationError, TransportError
from spmd_grid.transport.asked_path import NAME, asked_path, changes
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.launch import is_simulated

__all__ = [
    "AUTO",
    "DIRECT",
    "INLINE",
    "MESSAGE",
    "MIXED",
    "PACKED",
    "READ",
    "STAGED",
    "STRAIGHT",
    "allows_memory",
    "checked_path",
    "chosen_path",
    "forced_path",
    "path_for",
]

AUTO, DIRECT, MIXED, INLINE, MESSAGE = "auto", "direct", "mixed", "inline", "message"
READ, STAGED = "read", "staged"  # kinds of direct
PACKED, STRAIGHT = "packed", "straight"  # kinds of message
_NAMES = (AUTO, DIRECT, MIXED, INLINE, MESSAGE, READ, STAGED, PACKED, STRAIGHT)
# What operations without kinds of direct and message take each kind for.
_MEANING = {READ: DIRECT, STAGED: DIRECT, PACKED: MESSAGE, STRAIGHT: MESSAGE}


def checked_path(name: str, where: str) -> str:
    """The path of this ``name``, given by the argument or variable ``where``.  Raises TransportError."""
    if not isinstance(name, str) or name not in _NAMES:
        raise TransportError(f"{where} is {name!r}; it must be one of {', '.join(_NAMES)}")
    return _NAMES[_NAMES.index(name)]  # paths are compared by identity, and an environment's string is another object


_forced: str | None = None  # within `forced_path`


def chosen_path() -> str:
    """The forced path, or ``auto``.  Local."""
    if _forced is not None:
        return _forced
    text = asked_path()
    return checked_path(text, NAME) if text else AUTO


@contextmanager
def forced_path(name: str) -> Iterator[None]:
    """Forces a path within the ``with``, alike on all processes.  Local.

    Simulated ranks share the setting of their process: it goes around ``run_spmd``, not inside.
    """
    if is_simulated():
        raise SimulationError("forced_path inside a simulated rank, which shares the setting with all: put it around")
    global _forced
    previous, _forced = _forced, checked_path(name, "the forced path")
    changes[0] += 1
    try:
        yield
    finally:
        _forced = previous
        changes[0] += 1


def allows_memory(name: str) -> bool:
    """Whether channels on the path ``name`` exchange cells through memory where that is shared.  Local."""
    return name not in (MESSAGE, PACKED, STRAIGHT, INLINE)


def path_for(comm: Communicator, name: str) -> str:
    """The path of a group for which ``name`` is chosen, small arrays aside.  Local; the same on all members."""
    name = _MEANING.get(name, name)
    if name in (AUTO, MIXED):
        return DIRECT if comm.shares_memory else MIXED
    return MESSAGE if name == DIRECT and not comm.shares_memory else name
