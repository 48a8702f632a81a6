"""The memory that each process of a node reserves, and the processes that count as one node."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from spmd_grid.errors import TransportError
from spmd_grid.numerals import shown, whole_number

__all__ = ["ranks_per_node", "segment_size"]

# Linux's control groups, which may leave a process less memory than the machine has.
_GROUPS = Path("/sys/fs/cgroup")


def segment_size(n_processes: int) -> int:
    """The bytes to reserve for each of a node's processes: ``SPMD_GRID_ARENA``, or an equal share of all memory.

    Local.  Raises TransportError.
    """
    given = _number_from_environment("SPMD_GRID_ARENA", "the bytes that each process may share with its node", 0)
    return _memory_bytes() // n_processes if given is None else given


def ranks_per_node() -> int | None:
    """``SPMD_GRID_RANKS_PER_NODE``: number of successive processes that count as a node, to test several on one.

    Local.  Raises TransportError.
    """
    return _number_from_environment("SPMD_GRID_RANKS_PER_NODE", "how many processes count as one node", 1)


def _number_from_environment(name: str, meaning: str, least: int) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        return whole_number(text, least)
    except ValueError:
        raise TransportError(f"{name}={shown(text)}; it must be {meaning}, a whole number from {least}") from None


def _memory_bytes() -> int:
    """The memory that this process may use: that of the machine, or the limit of its control group."""
    found = [os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                found += _group_limits(controllers, path)
    return min(found)


def _group_limits(controller: str, path: str) -> Iterator[int]:
    """The limits of a control group and of those that contain it.  A container may see only the outermost."""
    root = _GROUPS / controller
    inner = root / path.lstrip("/")
    for group in (inner, *inner.parents):
        if group.is_relative_to(root):
            with suppress(OSError, ValueError):  # not there, or "max"
                yield int((group / ("memory.limit_in_bytes" if controller else "memory.max")).read_text())
