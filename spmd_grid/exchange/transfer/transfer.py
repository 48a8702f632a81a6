"""Transfers: the boxes that move between the members of a group, to which every operation is reduced.

A `Transfer` is one member's part of a movement: its own sends and receives, computed without any other member's list.
It describes boxes in arrays, not memory; the executor binds it to arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spmd_grid.grid.box import Box
from spmd_grid.typing import Shape

__all__ = ["Receive", "Send", "Transfer", "run_of"]


@dataclass(frozen=True, slots=True)
class Send:
    """``box`` of this member's source array goes to member ``peer``."""

    peer: int
    box: Box


@dataclass(frozen=True, slots=True)
class Receive:
    """``box`` of this member's target array comes from ``source_box`` of member ``peer``'s source array."""

    peer: int
    source_box: Box
    box: Box


@dataclass(frozen=True)
class Transfer:
    """One member's part of a movement within a group of ``size`` members.

    ``pattern`` names the collective that it is ("all_gather", "all_to_all", "broadcast", "gather", "scatter") or is
    "pairwise".  Sends and receives are in member order and list no empty boxes.  ``volume`` bounds, in elements and
    alike on all members, what any of them sends or receives.  ``parts``: the shapes of the boxes that any member sends,
    alike on all, where members send different parts to different ones; else empty.
    """

    pattern: str
    rank: int
    size: int
    source_shape: Shape | None
    target_shape: Shape | None
    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]
    volume: int
    root: int | None = None
    parts: frozenset[Shape] = frozenset()

    @cached_property
    def send_run(self) -> tuple[int, int] | None:
        """(start, stop) of the sends in a C-contiguous source, if they are one run of its elements."""
        boxes = [send.box for send in self.sends]
        if self.pattern in ("all_gather", "broadcast", "gather"):  # the same box to all members
            boxes = boxes[:1]
        return run_of(self.source_shape, boxes) if self.source_shape is not None else (0, 0)

    @cached_property
    def receive_run(self) -> tuple[int, int] | None:
        """(start, stop) of the receives in a C-contiguous target, if they are one run of its elements."""
        if self.target_shape is None:
            return (0, 0)
        return run_of(self.target_shape, [receive.box for receive in self.receives])

    @cached_property
    def readers(self) -> np.ndarray:
        """A word for each member: whether it gets a box of this member's array."""
        return np.isin(np.arange(self.size), [send.peer for send in self.sends]).astype(np.int64)

    @cached_property
    def send_counts(self) -> list[int]:
        """Number of elements sent to each member."""
        return _counts(self.size, ((send.peer, send.box.size) for send in self.sends))

    @cached_property
    def receive_counts(self) -> list[int]:
        """Number of elements received from each member."""
        return _counts(self.size, ((receive.peer, receive.box.size) for receive in self.receives))


def _counts(size: int, sizes: Iterable[tuple[int, int]]) -> list[int]:
    counts = [0] * size
    for peer, n in sizes:
        counts[peer] += n
    return counts


def run_of(shape: Shape, boxes: Sequence[Box]) -> tuple[int, int] | None:
    """The run of elements that ``boxes`` in a row are in a C-contiguous array; None if they are not contiguous.

    Local.

    >>> run_of((4, 3), [Box((1, 0), (2, 3)), Box((2, 0), (4, 3))])
    (3, 12)
    >>> run_of((4, 3), [Box((0, 0), (2, 2))]) is None
    True
    """
    start: int | None = None
    stop: int | None = None
    for box in boxes:
        if box.is_empty:
            continue
        dim = 0
        while dim < len(shape) and box.stops[dim] - box.starts[dim] == 1:
            dim += 1
        if any(b - a != n for a, b, n in zip(box.starts[dim + 1 :], box.stops[dim + 1 :], shape[dim + 1 :])):
            return None
        first = 0
        for at, n in zip(box.starts, shape):
            first = first * n + at
        if stop is not None and first != stop:
            return None
        start = first if start is None else start
        stop = first + box.size
    return (0, 0) if start is None or stop is None else (start, stop)
