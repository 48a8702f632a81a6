"""Attributes of operations: the plain arguments of their calls, the cells that slices name, and their cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.program.ir import Constant, Operation
from spmd_grid.program.lowerings.concatenation import Concatenate
from spmd_grid.program.lowerings.eager import Eager
from spmd_grid.program.lowerings.scans import Scan
from spmd_grid.program.lowerings.selections import Put, Select
from spmd_grid.program.text.constants import number_text
from spmd_grid.program.text.types import axes_text, dtype_text
from spmd_grid.program.trace.keys import part_of

__all__ = ["call_attributes", "cut_attribute", "index_text", "selection_attributes"]


def cut_attribute(axes: Sequence[Sequence[int]]) -> str:
    """The axes that cut the iterators of an operation, as the RFC's sharding option."""
    return f"sharding = {axes_text(axes)}"


def selection_attributes(cells: Selection) -> list[str]:
    """The cells that a slice names: per dimension the first, how many, and the step; then what is done with them."""
    named = {"offsets": cells.starts, "sizes": cells.counts, "strides": cells.steps}
    named |= {name: getattr(cells, name) for name in ("flipped", "dropped", "new") if getattr(cells, name)}
    return [f"{name} = {list(numbers)}" for name, numbers in named.items()]


def index_text(part: Any) -> str:
    """An index, or a part of one: integers, lists of them, slices, ``...`` and new dimensions.

    >>> index_text((slice(1, None, 2), [3, 1], None, -1))
    '["1::2", [3, 1], "new", -1]'
    """
    if isinstance(part, tuple | list | np.ndarray):
        return f"[{', '.join([index_text(each) for each in part])}]"
    if isinstance(part, bool | np.bool_):
        return str(bool(part)).lower()
    if isinstance(part, slice):
        ends = ["" if n is None else str(int(n)) for n in (part.start, part.stop, part.step)]
        return f'"{ends[0]}:{ends[1]}' + (f':{ends[2]}"' if ends[2] else '"')
    words = {None: "new", Ellipsis: "..."}
    return f'"{words.get(part, part)}"' if part in words or isinstance(part, str) else str(int(part))


def call_attributes(operation: Operation) -> list[str]:
    """The plain arguments of the call, such as its axis, and the cells that a slice names.  Local."""
    lowering, key = operation.lowering, operation.key
    if isinstance(lowering, Select | Put):
        return selection_attributes(lowering.selection)
    if isinstance(lowering, Scan | Concatenate):
        return [f"axis = {lowering.axis}"]
    if isinstance(lowering, Eager):
        if lowering.called is None:
            given = {} if lowering.told is None else lowering.told[1]
            return [f"{name} = {index_text(x)}" for name, x in given.items() if x is not None]
        key, names = lowering.key
        shown = ", ".join(f'"{name}"' for name in names)
        return [*_plain_arguments(key, names), *[f"operands = [{shown}]"] * (len(names) > 1)]
    if not isinstance(key, tuple) or operation.function is None or key[0] is not operation.function:
        return []
    constants = [part_of(x.value) for x in operation.operands if isinstance(x, Constant)]
    counts = {name: _count_operands(part, constants) for name, part in key[1:]}
    found, taken = _plain_arguments(key, [name for name, n in counts.items() if n]), sum(counts.values())
    return found if taken == len(operation.operands) else [*found, f"operands = {taken}"]


def _count_operands(part: Any, constants: list[Any]) -> int:
    """The operands that an argument holds: arrays, and those of the constants, which are then taken away."""
    if part in constants:
        constants.remove(part)
        return 1
    if isinstance(part, str):
        return int(part == "array")
    return sum([_count_operands(each, constants) for each in part]) if isinstance(part, tuple) else 0


def _plain_arguments(key: Any, operands: Sequence[str]) -> list[str]:
    """The arguments of a call that are no operands."""
    given = [(name, _plain(part)) for name, part in key[1:] if name not in operands]
    return [f"{name} = {text}" for name, text in given if text is not None]


def _float_text(x: float) -> str:
    """A number as an attribute: its bits, with the type, where it has no digits."""
    return number_text(x) if np.isfinite(x) else f"{number_text(x)} : f64"


def _plain(part: Any) -> str | None:
    """A plain argument, as keys of calls hold it; None for arrays, defaults, and what has no attribute."""
    if isinstance(part, np.dtype):
        return dtype_text(part)
    if not isinstance(part, tuple) or not part:
        return None
    kind, *rest = part
    if kind is bool:
        return rest[0].lower()
    if kind is float:
        return _float_text(float(rest[0]))
    if kind is int:
        return str(rest[0])
    if kind is str:
        return '"' + rest[0][1:-1].replace('"', "'") + '"'
    if kind in (tuple, list):
        parts = [_plain(each) for each in rest]
        return None if None in parts or not parts else f"[{', '.join(map(str, parts))}]"
    return None
