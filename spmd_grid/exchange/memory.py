"""Boxes of one array as flat bytes and back: views where memory allows, one packing pass where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.grid.box import Box
from spmd_grid.transport.communicator import Process

__all__ = ["copy_views", "flat_bytes", "land", "pack", "scratch", "view_of"]

# Below this many bytes numpy's own assignment is faster than building a copy table.
_KERNEL_BYTES = 1 << 15

# Scratch memory beyond this is given back to the system after use.
_MOST_KEPT_BYTES = 1 << 26


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
    """An array to use within the ``with``, on memory that is kept: the first touch of fresh memory costs more than
    the bytes that pass through it.  Local; None where there is no ``shape``."""
    if shape is None:
        yield None
        return
    nbytes = prod(shape) * dtype.itemsize
    memory, process.scratch = process.scratch, None  # whoever comes meanwhile finds none and makes its own
    if memory is None or memory.nbytes < nbytes:
        memory = process.arena.allocate(nbytes)
        if memory is None:
            memory = np.empty(nbytes, np.uint8)
    try:
        yield memory[:nbytes].view(dtype).reshape(shape)
    finally:
        if memory.nbytes <= _MOST_KEPT_BYTES:
            process.scratch = memory


def view_of(x: np.ndarray, box: Box) -> np.ndarray:
    """The cells of ``box``; a view also where x is 0-d, of which plain indexing would make a scalar.  Local."""
    return x[..., *box.slices()]


def flat_bytes(x: np.ndarray) -> np.ndarray:
    """A C-contiguous array as flat uint8, without a copy."""
    return x.reshape(-1).view(np.uint8) if x.itemsize else np.empty(0, np.uint8)


def pack(x: np.ndarray, boxes: Sequence[Box], run: tuple[int, int] | None) -> np.ndarray:
    """The boxes of ``x`` one after the other as flat bytes: a view of ``x`` if they are a ``run`` of it.  Local."""
    if run is not None and x.flags.c_contiguous:
        return flat_bytes(x)[run[0] * x.itemsize : run[1] * x.itemsize]
    staging = np.empty(sum(box.size for box in boxes), x.dtype)
    copy_views([(view_of(x, box), part) for box, part in zip(boxes, _parts(staging, boxes))])
    return flat_bytes(staging)


def land(
    x: np.ndarray, boxes: Sequence[Box], run: tuple[int, int] | None
) -> tuple[np.ndarray, Callable[[], None] | None]:
    """Flat bytes that become the boxes of ``x``, and what to call once they are filled (None: nothing).  Local."""
    if run is not None and x.flags.c_contiguous:
        return flat_bytes(x)[run[0] * x.itemsize : run[1] * x.itemsize], None
    staging = np.empty(sum(box.size for box in boxes), x.dtype)
    pairs = [(part, view_of(x, box)) for box, part in zip(boxes, _parts(staging, boxes))]
    return flat_bytes(staging), lambda: copy_views(pairs)


def _parts(staging: np.ndarray, boxes: Sequence[Box]) -> list[np.ndarray]:
    parts, start = [], 0
    for box in boxes:
        parts.append(staging[start : start + box.size].reshape(box.shape))
        start += box.size
    return parts
