"""Rules on tosa and stablehlo: results have the extents that follow from the operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from spmd_grid.dialect.syntax.other_dialects.stablehlo.dot_general import DotGeneralOp
from spmd_grid.dialect.syntax.other_dialects.stablehlo.operations import ELEMENTWISE
from spmd_grid.dialect.syntax.other_dialects.tosa import OPERANDS
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.verify.extents import (
    Shape,
    axis_of,
    broadcast,
    check_same_cells,
    expect,
    joined,
    list_of,
    permuted,
    shape_text,
)
from spmd_grid.dialect.verify.shardings import open_shape

__all__ = ["check_dense"]


def check_dense(operation: Operation) -> None:
    """Check the extents of the result of an operation of tosa or stablehlo."""
    rule = _RULES.get(operation.name)
    if rule is not None:
        rule(operation, [open_shape(x.type) for x in operation.operands], open_shape(operation.results[0].type))


def _spread(count: int) -> Callable[[Operation, list[Shape], Shape], None]:
    def check(operation: Operation, shapes: list[Shape], result: Shape) -> None:
        """Operands of one rank, in which extents of 1 grow.  Zero points and shifts may follow them."""
        expect(operation, broadcast(operation, shapes[:count]), result)

    return check


def _equal(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Operands and result of one shape."""
    for n, shape in enumerate(shapes):
        expect(operation, result, shape, f"operand {n}")


def _select(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """A choice for each cell, or one for all."""
    _equal(operation, shapes[1:] if shapes[0] == () else shapes, result)


def _clamp(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Bounds for each cell, or for all."""
    _equal(operation, [shape for n, shape in enumerate(shapes) if n == 1 or shape], result)


def _matmul(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """A product of matrices for each index of the batch."""
    left, right = shapes[:2]
    if len(left) != 3 or len(right) != 3:
        raise verify_error(operation, f"operands must have 3 dimensions, found {len(left)} and {len(right)}")
    expect(operation, (left[0], left[2], None), right, "operand 1")
    expect(operation, (left[0], left[1], right[2]), result)


def _tosa_reduce(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """One cell is left of the reduced dimension."""
    axis = axis_of(operation, "axis", len(shapes[0]))
    expect(operation, (*shapes[0][:axis], 1, *shapes[0][axis + 1 :]), result)


def _tosa_reverse(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """A dimension of the operand, whose shape stays."""
    axis_of(operation, "axis", len(shapes[0]))
    expect(operation, shapes[0], result)


def _reduce(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """The reduced dimensions are left out."""
    dims = list_of(operation, "dimensions") or ()
    _check_dims(operation, dims, len(shapes[0]))
    expect(operation, (), shapes[1], "the initial number")
    expect(operation, tuple([n for dim, n in enumerate(shapes[0]) if dim not in dims]), result)


def _check_dims(operation: Operation, dims: tuple[int, ...], rank: int) -> None:
    if len(set(dims)) != len(dims) or any([not 0 <= dim < rank for dim in dims]):
        raise verify_error(operation, f"{list(dims)} must be different dimensions in [0, {rank})")


def _permute(word: str) -> Callable[[Operation, list[Shape], Shape], None]:
    def check(operation: Operation, shapes: list[Shape], result: Shape) -> None:
        """The dimensions in another order; one that is a value is not known here."""
        order = list_of(operation, word)
        if order is not None:
            expect(operation, permuted(operation, shapes[0], order), result)
        elif len(shapes) == 1:
            raise verify_error(operation, f"the attribute {word!r} is missing")

    return check


def _join(word: str) -> Callable[[Operation, list[Shape], Shape], None]:
    def check(operation: Operation, shapes: list[Shape], result: Shape) -> None:
        """Operands one after the other."""
        if not shapes:
            raise verify_error(operation, "expected at least 1 operand, found 0")
        expect(operation, joined(operation, shapes, axis_of(operation, word, len(shapes[0]))), result)

    return check


def _reshape(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """As many cells before as after; of tosa, in the shape that the operand is."""
    check_same_cells(operation, shapes[0], result)
    made = operation.operands[1].owner if len(operation.operands) > 1 else None
    if isinstance(made, Operation) and made.name == "tosa.const_shape":
        sizes = list_of(made, "values") or ()
        expect(operation, tuple([None if n < 0 else n for n in sizes]), result)  # an open one is found by the cells


def _broadcast_in_dim(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Each dimension of the operand is one of the result, or has one cell."""
    dims = list_of(operation, "broadcast_dimensions") or ()
    _check_dims(operation, dims, len(result))
    if len(dims) != len(shapes[0]):
        raise verify_error(operation, f"expected a dimension for each of {len(shapes[0])}, found {list(dims)}")
    wanted = tuple([n if n == 1 else result[dim] for n, dim in zip(shapes[0], dims)])
    expect(operation, wanted, shapes[0], "the operand")


def _dot(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Batch, then what is left of the first operand, then of the second."""
    if not isinstance(operation, DotGeneralOp):
        return
    dot, (left, right) = operation.dot_dimension_numbers, shapes
    batch = tuple(dot.lhs_batching_dimensions.get_values()), tuple(dot.rhs_batching_dimensions.get_values())
    summed = tuple(dot.lhs_contracting_dimensions.get_values()), tuple(dot.rhs_contracting_dimensions.get_values())
    for side, shape in enumerate((left, right)):
        _check_dims(operation, (*batch[side], *summed[side]), len(shape))
    for what, (first, second) in (("batching", batch), ("contracting", summed)):
        if len(first) != len(second):
            raise verify_error(operation, f"{what} dimensions {list(first)} and {list(second)} must be as many")
        wanted, found = [tuple([shape[dim] for dim in dims]) for shape, dims in ((left, first), (right, second))]
        expect(operation, wanted, found, f"the {what} dimensions of operand 1")
    rest = [
        [n for dim, n in enumerate(shape) if dim not in (*batch[side], *summed[side])]
        for side, shape in enumerate((left, right))
    ]
    expect(operation, (*[left[dim] for dim in batch[0]], *rest[0], *rest[1]), result)


def _slice(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Cells from starts to ends, which lie inside the operand."""
    ranges = [list_of(operation, word) or () for word in ("start_indices", "limit_indices", "strides")]
    if {len(each) for each in ranges} != {len(shapes[0])}:
        raise verify_error(operation, f"expected a range for each of {len(shapes[0])} dimensions")
    for start, stop, step, size in zip(*ranges, shapes[0]):
        if not 0 <= start <= stop or step < 1 or (size is not None and stop > size):
            raise verify_error(operation, f"the range {start}:{stop}:{step} does not lie in [0, {size})")
    expect(operation, tuple([-(-(stop - start) // step) for start, stop, step in zip(*ranges)]), result)


def _dynamic_slice(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Starts for every dimension, and sizes that fit in the operand."""
    sizes = list_of(operation, "slice_sizes") or ()
    _check_starts(operation, shapes[0], shapes[1:], sizes)
    expect(operation, sizes, result)


def _dynamic_update(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Starts for every dimension, and an update that fits in the operand."""
    _check_starts(operation, shapes[0], shapes[2:], shapes[1])
    expect(operation, shapes[0], result)


def _check_starts(operation: Operation, shape: Shape, starts: list[Shape], sizes: Shape) -> None:
    if len(starts) != len(shape) or len(sizes) != len(shape) or any(starts):
        raise verify_error(operation, f"expected a start and a size for each of {len(shape)} dimensions")
    for dim, (size, extent) in enumerate(zip(sizes, shape)):
        if size is not None and (size < 0 or (extent is not None and size > extent)):
            raise verify_error(operation, f"{size} cells of dimension {dim} do not lie in [0, {extent})")


def _pad(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Borders for every dimension."""
    words = "edge_padding_low", "edge_padding_high", "interior_padding"
    parts = [list_of(operation, word) or () for word in words]
    if {len(each) for each in parts} != {len(shapes[0])} or any(n < 0 for n in parts[2]):
        raise verify_error(operation, f"expected borders for each of {len(shapes[0])} dimensions, found {parts}")
    expect(operation, (), shapes[1], "the number of the border")
    wanted = [
        None if n is None else n + low + high + max(n - 1, 0) * between
        for n, low, high, between in zip(shapes[0], *parts)
    ]
    if any(n is not None and n < 0 for n in wanted):
        raise verify_error(operation, f"borders {parts} take away more cells than {shape_text(shapes[0])} has")
    expect(operation, tuple(wanted), result)


def _reverse(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """Dimensions of the operand, whose shape stays."""
    _check_dims(operation, list_of(operation, "dimensions") or (), len(shapes[0]))
    expect(operation, shapes[0], result)


def _iota(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """The dimension along which numbers count exists."""
    axis_of(operation, "iota_dimension", len(result))


def _constant(operation: Operation, shapes: list[Shape], result: Shape) -> None:
    """A constant of tosa has the type of its value."""
    value: Any = operation.properties.get("values") or operation.properties.get("value")
    if value is None:
        raise verify_error(operation, "the attribute 'values' is missing")
    if getattr(value, "get_type", None) is None or value.get_type() != operation.results[0].type:
        raise verify_error(operation, f"the value must have the type of the result, {operation.results[0].type}")


_OTHER = {"reverse", "concat", "const", "const_shape", "matmul", "reshape", "transpose", "clamp"}
_RULES: dict[str, Callable[[Operation, list[Shape], Shape], None]] = {
    **{
        f"tosa.{name}": _tosa_reduce if name.startswith("reduce_") else _spread(min(counts or (1,)))
        for name, (counts, _) in OPERANDS.items()
        if name not in _OTHER
    },
    "tosa.clamp": _spread(1),
    "tosa.concat": _join("axis"),
    "tosa.const": _constant,
    "tosa.matmul": _matmul,
    "tosa.reshape": _reshape,
    "tosa.reverse": _tosa_reverse,
    "tosa.transpose": _permute("perms"),
    **{f"stablehlo.{name}": _equal for name in ELEMENTWISE},
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _equal,
    "stablehlo.convert": _equal,
    "stablehlo.select": _select,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _join("dimension"),
    "stablehlo.dot_general": _dot,
    "stablehlo.iota": _iota,
    "stablehlo.reduce": _reduce,
    "stablehlo.reshape": _reshape,
    "stablehlo.slice": _slice,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update,
    "stablehlo.pad": _pad,
    "stablehlo.reverse": _reverse,
    "stablehlo.transpose": _permute("permutation"),
}
