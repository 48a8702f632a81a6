"""Rules on the collectives of stablehlo: groups of different processes, and results of the size that follows."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from spmd_grid.dialect.syntax.other_dialects.stablehlo.collectives import HloCollectiveOp, HloReducingOp
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.verify.extents import Shape, axis_of, expect
from spmd_grid.dialect.verify.shardings import open_shape

__all__ = ["check_among", "check_number"]

_EVEN = "stablehlo.all_gather", "stablehlo.reduce_scatter", "stablehlo.all_to_all"  # their groups are of one size


def check_among(operation: HloCollectiveOp) -> None:
    """Check a collective of processes that are listed by number."""
    is_permute = operation.name == "stablehlo.collective_permute"
    word = "source_target_pairs" if is_permute else "replica_groups"
    groups = _groups(operation, word)
    if operation.use_global_device_ids is not None and operation.channel <= 0:
        raise verify_error(operation, f"use_global_device_ids needs a channel above 0, found {operation.channel}")
    if is_permute:
        _check_pairs(operation, groups)
    else:
        _check_different(operation, [n for group in groups for n in group], word)
    if operation.name in _EVEN and len({len(group) for group in groups}) > 1:
        raise verify_error(operation, f"replica_groups must have one size, found {groups}")
    spans = operation.channel > 0 and operation.use_global_device_ids is None  # then partitions are in groups, too
    size = len(groups[0]) if groups and not (spans and operation.name != "stablehlo.all_to_all") else None
    for x, result in zip(operation.operands, operation.results):
        expect(operation, _after(operation, open_shape(x.type), size), open_shape(result.type))
    _check_types(operation)


def check_number(operation: Operation) -> None:
    """Check an operation that gives a number of the process."""
    kind = operation.results[0].type
    if open_shape(kind) != () or str(kind) != "tensor<ui32>":
        raise verify_error(operation, f"the result must be tensor<ui32>, found {kind}")


def _groups(operation: HloCollectiveOp, word: str) -> list[list[int]]:
    """The lists of numbers, without the -1 that fill shorter ones."""
    found = operation.properties[word]
    shape = found.type.get_shape() if isinstance(found, DenseIntOrFPElementsAttr) else ()
    if not isinstance(found, DenseIntOrFPElementsAttr) or len(shape) != 2:
        raise verify_error(operation, f"{word} must have 2 dimensions, found {found}")
    numbers = list(found.get_values())
    if not all(isinstance(n, int) for n in numbers):
        raise verify_error(operation, f"{word} must have whole numbers, found {found}")
    rows, columns = shape
    numbers = numbers * (rows * columns) if len(numbers) == 1 else numbers
    lists = [[int(n) for n in numbers[row * columns : (row + 1) * columns]] for row in range(rows)]
    kept = [[n for n in row if n != -1] for row in lists]
    if any(n < 0 for row in kept for n in row) or any(row[: len(short)] != short for row, short in zip(lists, kept)):
        raise verify_error(operation, f"{word} must have numbers from 0, and -1 after those of shorter groups alone")
    return kept


def _check_different(operation: Operation, numbers: list[int], word: str) -> None:
    twice = sorted({n for n in numbers if numbers.count(n) > 1}) if len(set(numbers)) < len(numbers) else []
    if twice:
        raise verify_error(operation, f"{word} must have every process once, found {twice[0]} again")


def _check_pairs(operation: Operation, pairs: list[list[int]]) -> None:
    if any(len(pair) != 2 for pair in pairs):
        raise verify_error(operation, f"source_target_pairs must be pairs, found {pairs}")
    for side, what in enumerate(("sources of source_target_pairs", "targets of source_target_pairs")):
        _check_different(operation, [pair[side] for pair in pairs], what)


def _after(operation: HloCollectiveOp, shape: Shape, size: int | None) -> Shape:
    """The shape of a result; ``size``: of the groups, None where it is known at run time only."""
    short = operation.name.removeprefix("stablehlo.")
    if short == "all_gather":
        return _changed(shape, axis_of(operation, "all_gather_dim", len(shape)), up=size)
    if short == "reduce_scatter":
        axis = axis_of(operation, "scatter_dimension", len(shape))
        _check_divides(operation, shape[axis], size)
        return _changed(shape, axis, down=size)
    if short == "all_to_all":
        axes = [axis_of(operation, f"{word}_dimension", len(shape)) for word in ("split", "concat")]
        count = int(operation.properties["split_count"].value.data)  # type: ignore[attr-defined]  # by its definition
        if size is not None and count != size:
            raise verify_error(operation, f"split_count is {count}; groups have {size} processes")
        if count < 1:
            raise verify_error(operation, f"split_count is {count}; it must be at least 1")
        _check_divides(operation, shape[axes[0]], count)
        return _changed(_changed(shape, axes[0], down=count), axes[1], up=count)
    return shape


def _check_divides(operation: Operation, extent: int | None, size: int | None) -> None:
    if extent is not None and size is not None and extent % size:
        raise verify_error(operation, f"the extent {extent} must be a multiple of {size}, the size of the groups")


def _changed(shape: Shape, axis: int, up: int | None = 1, down: int | None = 1) -> Shape:
    extent = shape[axis]
    new = None if extent is None or up is None or down is None else extent * up // down
    return (*shape[:axis], new, *shape[axis + 1 :])


def _check_types(operation: HloCollectiveOp) -> None:
    """Cells keep their type; those that are combined have that of the body."""
    if isinstance(operation, HloReducingOp):
        argument = operation.body.block.args[0].type
        for result in operation.results:
            if open_shape(argument) != () or result.type.get_element_type() != argument.get_element_type():  # type: ignore[attr-defined]  # tensors, by its definition
                raise verify_error(operation, f"the body combines {argument}; the result is {result.type}")
        return
    for x, result in zip(operation.operands, operation.results):
        kinds = [each.type.get_element_type() for each in (x, result)]  # type: ignore[attr-defined]  # tensors, by its definition
        if kinds[0] != kinds[1]:
            raise verify_error(operation, f"the result has cells of {kinds[1]}; the operand of {kinds[0]}")
