"""Operations that move boxes: what a member does once all facts are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spmd_grid.exchange.execute import next_tag, run_direct, run_message, send_and_receive
from spmd_grid.exchange.header import Facts
from spmd_grid.exchange.memory import view_of
from spmd_grid.exchange.paths import DIRECT, INLINE, MESSAGE
from spmd_grid.exchange.transfer import Transfer
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Frames
from spmd_grid.typing import Shape

__all__ = ["FrameArrays", "Movement", "way_of"]


def way_of(path: str, facts: list[Facts]) -> str:
    """The way this call goes, known alike to all members: inline only if everybody's array fits."""
    if path is INLINE:
        return INLINE if all(fact.fits_inline for fact in facts) else MESSAGE
    return path


class FrameArrays:
    """The members' small arrays as they lie in the frames."""

    __slots__ = ("_facts", "_data", "_arrays")

    def __init__(self, facts: list[Facts]):
        self._facts = facts
        self._data = None
        self._arrays: list[np.ndarray | None] = []

    def of(self, frames: Frames) -> list[np.ndarray | None]:
        """One array per member (None where it has none); valid until the next swap on the same communicator."""
        if frames.data is not self._data:
            self._data = frames.data
            self._arrays = [_array_in(frames.data, place, fact) for place, fact in enumerate(self._facts)]
        return self._arrays


def _array_in(data, place: int, fact: Facts) -> np.ndarray | None:
    if fact.shape is None:
        return None
    start = place * FRAME_BYTES + HEADER_BYTES
    raw = np.frombuffer(data, np.uint8, fact.nbytes, start)
    if fact.nbytes == 0:
        return np.empty(fact.shape, fact.dtype)
    return raw.view(fact.dtype).reshape(fact.shape)


class Movement:
    """Moves boxes of the members' arrays into a result of ``shape`` (None: this member has no result).

    ``fill``: what cells that nobody sends hold.
    """

    __slots__ = ("comm", "transfer", "shape", "dtype", "fill", "way", "_frame_arrays", "_inline")

    def __init__(self, call, facts: list[Facts], transfer: Transfer, shape: Shape | None, dtype: np.dtype, fill=None):
        self.comm = call.comm
        self.transfer = transfer
        self.shape = shape
        self.dtype = dtype
        self.fill = fill
        self.way = way_of(call.path, facts)
        self._frame_arrays = FrameArrays(facts)
        self._inline: tuple = (None, ())

    def run(self, x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> np.ndarray | None:
        target = self._target(out)
        if self.way is DIRECT:
            run_direct(self.comm, self.transfer, frames.exposed, target)
        elif self.way is INLINE:
            self._copy_inline(frames, target)
        else:
            run_message(self.comm, self.transfer, x, target)
        return target

    def steps(self, x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> Iterator[list]:
        """As ``run``, in steps that do not wait."""
        target = self._target(out)
        if self.way is INLINE:
            self._copy_inline(frames, target)
        else:
            yield from send_and_receive(self.comm, self.transfer, x, target, next_tag(self.comm))
        return target

    def _copy_inline(self, frames: Frames, target: np.ndarray | None) -> None:
        """Copies the receives out of the frames; where in them they lie is worked out once."""
        if target is None:
            return
        arrays = self._frame_arrays.of(frames)
        if self._inline[0] is not arrays:
            views = [(view_of(arrays[r.peer], r.source_box), r.box.slices()) for r in self.transfer.receives]
            self._inline = arrays, views
        for view, place in self._inline[1]:
            target[place] = view

    def _target(self, out: np.ndarray | None) -> np.ndarray | None:
        if self.shape is None:
            return None
        target = np.empty(self.shape, self.dtype) if out is None else out
        if self.fill is not None:
            target[...] = self.fill
        return target
