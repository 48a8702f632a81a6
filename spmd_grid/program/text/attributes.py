"""Attributes of operations: the plain arguments of their calls, the cells that slices name, and their cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.program.ir import Operation
from spmd_grid.program.lowerings.selections import Put, Select
from spmd_grid.program.text.types import axes_text, dtype_text

__all__ = ["call_attributes", "cut_attribute"]


def cut_attribute(axes: Sequence[Sequence[int]]) -> str:
    """The axes that cut the iterators of an operation, as the RFC's sharding option."""
    return f"sharding = {axes_text(axes)}"


def call_attributes(operation: Operation) -> list[str]:
    """The plain arguments of the call, such as its axis, and the cells that a slice names.  Local."""
    lowering, key = operation.lowering, operation.key
    if isinstance(lowering, Select | Put):
        cells = lowering.selection
        named = {"offsets": cells.starts, "sizes": cells.counts, "strides": cells.steps}
        named |= {"flipped": cells.flipped} if cells.flipped else {}
        return [f"{name} = {list(numbers)}" for name, numbers in named.items()]
    if not isinstance(key, tuple) or operation.function is None or key[0] is not operation.function:
        return []
    given = [(name, _plain(part)) for name, part in key[1:]]
    return [f"{name} = {text}" for name, text in given if text is not None]


def _plain(part: Any) -> str | None:
    """A plain argument, as keys of calls hold it; None for arrays, defaults, and what has no attribute."""
    if isinstance(part, np.dtype):
        return dtype_text(part)
    if not isinstance(part, tuple) or not part:
        return None
    kind, *rest = part
    if kind is bool:
        return rest[0].lower()
    if kind in (int, float):
        return str(rest[0])
    if kind is str:
        return '"' + rest[0][1:-1].replace('"', "'") + '"'
    if kind in (tuple, list):
        parts = [_plain(each) for each in rest]
        return None if None in parts or not parts else f"[{', '.join(map(str, parts))}]"
    return None
