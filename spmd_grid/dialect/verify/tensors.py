"""Rules on tensor, arith and scf that xdsl leaves out: slices lie inside, cells are kept, branches give their types."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import AnyFloat, ContainerType, IntegerType, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue

from spmd_grid.dialect.syntax.directives import mixed, numbers
from spmd_grid.dialect.syntax.other_dialects.arith import CONVERSIONS
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.verify.extents import Shape, check_same_cells, expect, shape_text
from spmd_grid.dialect.verify.shardings import open_shape

__all__ = ["check_tensor"]


def check_tensor(operation: Operation) -> None:
    """Check an operation of tensor, arith or scf, if there is a rule for it."""
    if isinstance(operation, tensor.ExtractSliceOp | tensor.InsertSliceOp):
        _slice(operation)
    elif isinstance(operation, tensor.CollapseShapeOp):
        _groups(operation, open_shape(operation.src.type), open_shape(operation.result.type))
    elif isinstance(operation, tensor.ExpandShapeOp):
        _groups(operation, open_shape(operation.result.type), open_shape(operation.src.type))
    elif isinstance(operation, tensor.EmptyOp):
        _count(
            operation, "values of open extents", len(operation.operands), open_shape(operation.tensor.type).count(None)
        )
    elif isinstance(operation, tensor.FromElementsOp):
        _count(operation, "elements", len(operation.operands), _cells(open_shape(operation.result.type)))
    elif isinstance(operation, tensor.ExtractOp):
        _count(operation, "indices", len(operation.indices), len(open_shape(operation.tensor.type)))
    elif isinstance(operation, tensor.InsertOp):
        _count(operation, "indices", len(operation.indices), len(open_shape(operation.dest.type)))
    elif isinstance(operation, tensor.PadOp):
        _pad(operation)
    elif isinstance(operation, LinalgStructuredOperation):
        _outputs(operation)
    elif isinstance(operation, scf.IfOp):
        _branches(operation)
    elif operation.name in CONVERSIONS:
        _convert(operation)


def _pad(operation: tensor.PadOp) -> None:
    """Borders for every dimension; the result has them beside the cells."""
    shape, sides = open_shape(operation.source.type), []
    for what, given, values in (
        ("low borders", operation.static_low, operation.low),
        ("high borders", operation.static_high, operation.high),
    ):
        sides.append(mixed(numbers(given), iter(values)))
        _count(operation, what, len(sides[-1]), len(shape))
    wanted = [
        n + low + high if isinstance(low, int) and isinstance(high, int) and n is not None else None
        for n, low, high in zip(shape, *sides)
    ]
    expect(operation, tuple(wanted), open_shape(operation.result.type))


def _outputs(operation: LinalgStructuredOperation) -> None:
    """Results are of the types of the tensors that they are written to."""
    wanted = [x.type for x in operation.outputs if isinstance(x.type, TensorType)]
    found = [x.type for x in operation.results]
    if found and found != wanted:
        shown = [", ".join(map(str, each)) for each in (wanted, found)]
        raise verify_error(operation, f"the results must be of the types of the outputs, {shown[0]}, found {shown[1]}")


def _cells(shape: Shape) -> int:
    """The number of cells of a shape that has all extents; open ones count as 1."""
    return prod([1 if n is None else n for n in shape])


def _count(operation: Operation, what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise verify_error(operation, f"expected {wanted} {what}, found {found}")


def _slice(operation: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> None:
    """Cells that lie inside the larger tensor, in the shape of the smaller one, which may leave out extents of 1."""
    larger = operation.source if isinstance(operation, tensor.ExtractSliceOp) else operation.dest
    smaller = operation.result if isinstance(operation, tensor.ExtractSliceOp) else operation.source
    shape, part = open_shape(larger.type), open_shape(smaller.type)
    starts = mixed(numbers(operation.static_offsets), iter(operation.offsets))
    sizes = mixed(numbers(operation.static_sizes), iter(operation.sizes))
    steps = mixed(numbers(operation.static_strides), iter(operation.strides))
    for what, found in (("offsets", starts), ("sizes", sizes), ("strides", steps)):
        _count(operation, what, len(found), len(shape))
    for dim, (start, count, step, size) in enumerate(zip(starts, sizes, steps, shape)):
        _inside(operation, dim, (start, count, step), size)
    if not _is_part([n if isinstance(n, int) else None for n in sizes], part):
        cells = shape_text(tuple([n if isinstance(n, int) else None for n in sizes]))
        raise verify_error(operation, f"a slice of {cells} cells does not have the shape {shape_text(part)}")


def _inside(operation: Operation, dim: int, cells: tuple[int | SSAValue, ...], size: int | None) -> None:
    start, count, step = cells
    if any([isinstance(n, int) and n < 0 for n in (start, count)]) or (isinstance(step, int) and step < 1):
        known = [n for n in cells if isinstance(n, int)]
        raise verify_error(operation, f"offset, size or stride of dimension {dim} is negative, or a stride 0: {known}")
    if isinstance(start, int) and isinstance(count, int) and isinstance(step, int) and size is not None and count:
        last = start + (count - 1) * step
        if last >= size:
            raise verify_error(operation, f"cell {last} of dimension {dim} lies outside [0, {size})")


def _is_part(sizes: Sequence[int | None], part: Shape) -> bool:
    """Whether a slice may have the shape ``part``, in which extents of 1 are left out.

    >>> _is_part([2, 1, 4], (2, 4)), _is_part([2, 1, 4], (2, 1, 4)), _is_part([2, 3], (2,)), _is_part([None], (5,))
    (True, True, False, True)
    """
    left = len(sizes) - len(part)
    at = 0
    for size in sizes:
        fits = at < len(part) and (size == part[at] or None in (size, part[at]))
        if fits and not (size == 1 and left > 0 and part[at] != 1):
            at += 1
        elif size == 1 and left > 0:
            left -= 1
        else:
            return False
    return at == len(part)


def _groups(operation: tensor.CollapseShapeOp | tensor.ExpandShapeOp, larger: Shape, smaller: Shape) -> None:
    """Each dimension of the smaller shape has the cells of its group of dimensions, and every dimension is in one."""
    groups = [[entry.value.data for entry in group] for group in operation.reassociation]
    named = [dim for group in groups for dim in group]
    if named != list(range(len(larger))) or len(groups) != len(smaller):
        raise verify_error(
            operation, f"{groups} must name all {len(larger)} dimensions in order, in {len(smaller)} groups"
        )
    for group, size in zip(groups, smaller):
        sizes = [larger[dim] for dim in group]
        whole = None if None in sizes else prod([n for n in sizes if n is not None])
        check_same_cells(operation, (whole,), (size,))


def _branches(operation: scf.IfOp) -> None:
    """Both branches give values of the types of the results."""
    wanted = [x.type for x in operation.results]
    for word, region in (("first", operation.true_region), ("second", operation.false_region)):
        last = region.block.last_op if region.blocks else None
        found = [x.type for x in last.operands] if last is not None else []
        if found != wanted:
            shown = ", ".join(map(str, found)) or "nothing"
            raise verify_error(operation, f"the {word} branch must give ({', '.join(map(str, wanted))}), found {shown}")


_WIDER = "arith.extf", "arith.extsi", "arith.extui"
_NARROWER = "arith.truncf", "arith.trunci"


def _convert(operation: Operation) -> None:
    """Other element types of the same cells; those that widen give more bits."""
    before, after = operation.operands[0].type, operation.results[0].type
    if isinstance(before, ContainerType) != isinstance(after, ContainerType):
        raise verify_error(operation, f"from {before} to {after}: both must be tensors, or neither")
    expect(operation, open_shape(before), open_shape(after))
    bits = [_bits(kind.get_element_type() if isinstance(kind, ContainerType) else kind) for kind in (before, after)]
    if bits[0] is None or bits[1] is None:
        return
    if (operation.name in _WIDER and bits[1] <= bits[0]) or (operation.name in _NARROWER and bits[1] >= bits[0]):
        word = "more" if operation.name in _WIDER else "fewer"
        raise verify_error(operation, f"the result must have {word} bits than {before}, found {after}")


def _bits(kind: object) -> int | None:
    if isinstance(kind, IntegerType):
        return kind.width.data
    return kind.bitwidth if isinstance(kind, AnyFloat) else None
