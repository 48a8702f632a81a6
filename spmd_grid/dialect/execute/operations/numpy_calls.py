"""Operations of the engine's own texts: functions of numpy by their names, with plain arguments as attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from spmd_grid.dialect.execute.reading import dtype_of, integers, name_of
from spmd_grid.dialect.execute.table import HANDLERS, Machine, handles
from spmd_grid.errors import ImplicitGatherError

__all__ = ["numpy_call"]

_NOT_ARGUMENTS = {"sharding", "op_name__"}  # the parser keeps the name of an operation that it does not know


def _plain(found: Attribute) -> Any:
    """An attribute as the plain argument of a call."""
    if isinstance(found, IntegerAttr):
        width = getattr(getattr(found.type, "width", None), "data", 0)
        return bool(found.value.data) if width == 1 else int(found.value.data)
    if isinstance(found, FloatAttr):
        return float(found.value.data)
    if isinstance(found, StringAttr):
        return found.data
    if isinstance(found, DenseArrayBase):
        return tuple(found.get_values())
    if isinstance(found, ArrayAttr):
        return tuple([_plain(each) for each in found])
    return dtype_of(found)


def numpy_call(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    """The results of ``numpy.NAME``: the function of numpy, with the attributes as its arguments."""
    name = name_of(op).partition(".")[2]
    function = getattr(np, name, None)
    if function is None or name.startswith("_"):
        raise ImplicitGatherError(f"numpy has no function {name}")
    given = {**op.attributes, **op.properties}
    options = {each: _plain(found) for each, found in given.items() if each not in _NOT_ARGUMENTS}
    operands = machine.thin(operands)
    found = function(list(operands), **options) if name == "concatenate" else function(*operands, **options)
    dtypes = [dtype_of(result.type) for result in op.results]
    if len(dtypes) > 1:
        return list(found)
    return found if found.dtype == dtypes[0] else found.astype(dtypes[0])


HANDLERS["numpy.*"] = numpy_call


@handles("numpy.astype", "spmd_grid.sum_finish", "spmd_grid.prod_finish")
def _astype(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    return operands[0].astype(dtype_of(op.results[0].type))


@handles("numpy.constant", "spmd_grid.constrain", "spmd_grid.same_cells")
def _same(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    return operands[0]


def _key(op: Operation) -> tuple[slice, ...]:
    flipped = integers(op, "flipped")
    parts = zip(integers(op, "offsets"), integers(op, "sizes"), integers(op, "strides"), strict=True)
    key = []
    for dim, (start, n, step) in enumerate(parts):
        last = start + (n - 1) * step
        if dim in flipped:
            key.append(slice(last, start - step if start - step >= 0 else None, -step) if n else slice(0, 0))
        else:
            key.append(slice(start, last + 1, step) if n else slice(0, 0))
    return tuple(key)


@handles("numpy.getitem")
def _getitem(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    found = operands[0][_key(op)]
    shape = tuple(op.results[0].type.get_shape())  # type: ignore[attr-defined]  # a tensor
    return found if found.shape == shape else np.reshape(found, shape)


@handles("numpy.setitem")
def _setitem(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    found, piece = np.copy(operands[0]), operands[1]
    found[_key(op)] = piece
    return found
