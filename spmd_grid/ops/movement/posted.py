"""The part of a small array that others of the node read in a member's line, or a copy, in runs without a meeting.

It is what they need, with the bytes between, as it lies in the array.  Where that is too much for a line, as of columns
of a large array, the boxes that they need are packed one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.grid.box import Box
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.ahead.slots import COPY_BYTES, LINE_POST_BYTES
from spmd_grid.ops.loops.work import copies_of
from spmd_grid.ops.movement.items import Item
from spmd_grid.typing import Shape

__all__ = ["Posted", "copied_by", "fit_lines", "posted_by"]

_ALIGNED = 16  # bytes between boxes in a line


class Posted(NamedTuple):
    """The part that a member posts: ``n_bytes`` of its array, from byte ``first`` on; or boxes, and where each lies."""

    n_bytes: int = 0
    first: int = 0
    starts: Mapping[Box, int] | None = None

    def rows(self, shape: Shape, dtype: np.dtype) -> list[BoxRow]:
        """The rows that pack the boxes of an array of ``shape``."""
        found: list[BoxRow] = []
        for box, start in (self.starts or {}).items():
            found += copies_of(shape, box, box.shape, Box.from_shape(box.shape), dtype, start)
        return found


def posted_by(
    shapes: Sequence[Shape | None],
    received: Sequence[Sequence[Item]],
    dtype: np.dtype,
    nodes: NodeMap,
    carried: Iterable[Item] = (),
) -> list[Posted]:
    """The parts that members post; ``carried``: boxes that others of its node send, from where they lie.  Local."""
    boxes = _boxes_read(received, nodes)
    is_packed = [True] * len(shapes)
    for item in carried:
        if item.box.size:
            boxes[item.source][item.box] = None
            is_packed[item.source] = False
    found = []
    for shape, needed, may_pack in zip(shapes, boxes, is_packed, strict=True):
        if shape is None or not needed:
            found.append(Posted())
            continue
        first = min(int(np.ravel_multi_index(box.starts, shape)) for box in needed) * dtype.itemsize
        last = max(int(np.ravel_multi_index([stop - 1 for stop in box.stops], shape)) for box in needed)
        posted = Posted((last + 1) * dtype.itemsize - first, first)
        found.append(_packed(needed, dtype) if may_pack and posted.n_bytes > LINE_POST_BYTES else posted)
    return found


def copied_by(received: Sequence[Sequence[Item]], dtype: np.dtype, nodes: NodeMap) -> list[Posted]:
    """The parts of large arrays that members copy for others of the node: packed, where they are small.  Local."""
    found = [_packed(boxes, dtype) for boxes in _boxes_read(received, nodes)]
    return [each if each.n_bytes <= COPY_BYTES else Posted() for each in found]


def _boxes_read(received: Sequence[Sequence[Item]], nodes: NodeMap) -> list[dict[Box, None]]:
    """The boxes of each member's array that others of its node need."""
    boxes: list[dict[Box, None]] = [{} for _ in received]
    for member, items in enumerate(received):
        for item in items:
            if item.source != member and nodes.node_of[item.source] == nodes.node_of[member] and item.box.size:
                boxes[item.source][item.box] = None
    return boxes


def _packed(boxes: Iterable[Box], dtype: np.dtype) -> Posted:
    starts, end = {}, 0
    for box in boxes:
        starts[box] = end
        end += -(-box.size * dtype.itemsize // _ALIGNED) * _ALIGNED
    return Posted(end, 0, starts)


def fit_lines(
    shapes: Sequence[Shape | None], received: Sequence[Sequence[Item]], dtype: np.dtype, nodes: NodeMap
) -> bool:
    """Whether what members need of arrays is small: for each of them, and for others of its node.  Local.

    Then each may be sent by itself, and the others of the node read it in a line.
    """
    needed = [item.box.size * dtype.itemsize for items in received for item in items]
    posted = [each.n_bytes for each in posted_by(shapes, received, dtype, nodes)]
    return max([*needed, *posted], default=0) <= LINE_POST_BYTES
