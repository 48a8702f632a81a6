"""Boxes of an array as flat bytes, and back: views where they are contiguous, one packing pass where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.grid.box import Box
from spmd_grid.transport.communicator import Process

__all__ = ["copy_views", "flat_bytes", "BufferPool", "receive_buffer", "pack", "buffer_pool_of", "scratch", "view_of"]

# Below this many bytes numpy's own assignment is faster than building a copy table.
_KERNEL_BYTES = 1 << 15

# Buffers of packed messages below the first size are not kept; all together have at most the second.
_SMALL_BUFFER, _MOST_KEPT = 1 << 16, 1 << 29

# Scratch memory beyond this is freed after use.
_MOST_SCRATCH_BYTES = 1 << 26


def copy_views(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Copies each source view onto its target view (equal shapes and dtypes).  Local."""
    if sum(source.nbytes for source, _ in pairs) < _KERNEL_BYTES:
        for source, target in pairs:
            target[...] = source
        return
    rows = [
        kernels.box_row(
            source.shape,
            source.itemsize,
            source.strides,
            kernels.address_of(source),
            target.strides,
            kernels.address_of(target),
        )
        for source, target in pairs
    ]
    kernels.copy_boxes(kernels.build_table(rows), 0, 0)


@contextmanager
def scratch(process: Process, shape: Sequence[int] | None, dtype: np.dtype) -> Iterator[np.ndarray | None]:
    """An array to use within the ``with``, or None without a ``shape``.  Local.

    Its memory is kept for the next one: the first touch of fresh memory costs more than the bytes that pass.
    """
    if shape is None:
        yield None
        return
    memory: np.ndarray | None
    nbytes = prod(shape) * dtype.itemsize
    memory, process.scratch = process.scratch, None  # a nested use finds none and allocates its own
    if memory is None or memory.nbytes < nbytes:
        memory = process.arena.allocate(nbytes)
        if memory is None:
            memory = np.empty(nbytes, np.uint8)
    try:
        yield memory[:nbytes].view(dtype).reshape(shape)
    finally:
        if memory.nbytes <= _MOST_SCRATCH_BYTES:
            process.scratch = memory


def view_of(x: np.ndarray, box: Box) -> np.ndarray:
    """The cells of ``box``; a view also where x is 0-d, of which plain indexing would make a scalar.  Local."""
    return x[..., *box.slices()]  # type: ignore[arg-type]  # numpy's stubs know no unpacking


def flat_bytes(x: np.ndarray) -> np.ndarray:
    """A C-contiguous array as flat uint8, without a copy."""
    return x.reshape(-1).view(np.uint8) if x.itemsize else np.empty(0, np.uint8)


class BufferPool:
    """Buffers for packed messages, used again: the first touch of fresh memory costs more than the bytes that pass.

    `give_back` returns what `take` gave, once no message uses it.  Local; one per process.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self, n_bytes: int) -> np.ndarray:
        """A buffer of at least ``n_bytes``, and of at most about twice that."""
        for i, buffer in enumerate(self._free):
            if n_bytes <= buffer.nbytes <= 2 * n_bytes + _SMALL_BUFFER:
                return self._free.pop(i)
        return np.empty(n_bytes, np.uint8)

    def give_back(self, buffers: Sequence[np.ndarray]) -> None:
        """Keeps the buffers for the next messages, up to a limit of bytes."""
        self._free += [buffer for buffer in buffers if buffer.nbytes >= _SMALL_BUFFER]
        kept = sum(buffer.nbytes for buffer in self._free)
        while kept > _MOST_KEPT:
            kept -= self._free.pop(0).nbytes


def buffer_pool_of(process: Process) -> BufferPool:
    """The pool of a process.  Local."""
    return process.kept.setdefault("buffer pool", BufferPool())


def pack(
    x: np.ndarray,
    boxes: Sequence[Box],
    run: tuple[int, int] | None,
    pool: BufferPool | None = None,
    taken: list[np.ndarray] | None = None,
) -> np.ndarray:
    """The boxes of ``x`` one after the other as flat bytes: a view of ``x`` if they are a ``run`` of it.

    Local.  Else they lie in a buffer of ``pool``, which is added to ``taken``, or in fresh memory.
    """
    if run is not None and x.flags.c_contiguous:
        return flat_bytes(x)[run[0] * x.itemsize : run[1] * x.itemsize]
    staging = _staging(x.dtype, boxes, pool, taken)
    copy_views([(view_of(x, box), part) for box, part in zip(boxes, _parts(staging, boxes))])
    return flat_bytes(staging)


def receive_buffer(
    x: np.ndarray,
    boxes: Sequence[Box],
    run: tuple[int, int] | None,
    pool: BufferPool | None = None,
    taken: list[np.ndarray] | None = None,
) -> tuple[np.ndarray, Callable[[], None] | None]:
    """Flat bytes to receive the boxes of ``x``, and the function to call once they are filled (None: no need).

    Local.  ``pool``, ``taken``: as for `pack`.
    """
    if run is not None and x.flags.c_contiguous:
        return flat_bytes(x)[run[0] * x.itemsize : run[1] * x.itemsize], None
    staging = _staging(x.dtype, boxes, pool, taken)
    pairs = [(part, view_of(x, box)) for box, part in zip(boxes, _parts(staging, boxes))]
    return flat_bytes(staging), lambda: copy_views(pairs)


def _staging(
    dtype: np.dtype, boxes: Sequence[Box], pool: BufferPool | None, taken: list[np.ndarray] | None
) -> np.ndarray:
    n = sum(box.size for box in boxes)
    if pool is None or taken is None or not dtype.itemsize:
        return np.empty(n, dtype)
    taken.append(pool.take(n * dtype.itemsize))
    return taken[-1][: n * dtype.itemsize].view(dtype)


def _parts(staging: np.ndarray, boxes: Sequence[Box]) -> list[np.ndarray]:
    parts, start = [], 0
    for box in boxes:
        parts.append(staging[start : start + box.size].reshape(box.shape))
        start += box.size
    return parts
