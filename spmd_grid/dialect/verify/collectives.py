"""Rules on the operations that move data: groups, devices, shapes and element types.

Beyond those of the dialect's own verifier: roots are not negative, axes of tensors exist, bitwise reductions have
integers, halos fit their block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import AnyFloat, ContainerType, IntegerAttr
from xdsl.ir import Operation

from spmd_grid.dialect.syntax.directives import numbers
from spmd_grid.dialect.syntax.encodings import is_encoded
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.syntax.shard import collectives as ops
from spmd_grid.dialect.verify.extents import shape_text
from spmd_grid.dialect.verify.grids import Grids, Sizes, check_axes, check_markers, known_group_size
from spmd_grid.dialect.verify.shardings import check_halos, check_split_axes, open_shape

__all__ = ["check_collective", "check_update_halo"]

Size = int | None  # an extent; None where it is left open
_MAY_BE_0D = (ops.AllReduceOp, ops.BroadcastOp, ops.ReduceOp)
_MAY_CONVERT = (ops.AllReduceOp, ops.ReduceOp, ops.ReduceScatterOp)


def check_collective(operation: ops.CollectiveOp, grids: Grids) -> None:
    """A collective: its grid, its group, its device, its types."""
    sizes = grids.sizes(operation, operation.grid_name)
    check_axes(operation, operation.axes, sizes)
    if isinstance(operation, ops.RootedOp):
        _check_device(operation, sizes)
    _check_elements(operation)
    source, result = open_shape(operation.operands[0].type), open_shape(operation.results[0].type)
    if not source and not isinstance(operation, _MAY_BE_0D):
        raise verify_error(operation, "the input must have at least 1 dimension, found 0")
    if is_encoded(operation.operands[0].type) or is_encoded(operation.results[0].type):
        _same(operation, source, result, None)  # of the whole tensor, whose encoding says what devices hold
        return
    _RULES[type(operation)](operation, source, result, known_group_size(operation.axes, sizes))


def _check_device(operation: ops.RootedOp, sizes: Sizes) -> None:
    """The device has a coordinate per grid axis, inside the grid."""
    device, word = operation.device, operation.DEVICE
    static: Any = operation.properties.get(word)
    check_markers(operation, word, numbers(static), getattr(operation, f"{word}_dynamic"))
    if device is None:
        return
    if len(device) != len(operation.axes):
        raise verify_error(
            operation,
            f"{word} has {len(device)} coordinates, expected {len(operation.axes)}, one per entry of grid_axes",
        )
    for axis, found in zip(operation.axes, device):
        size = sizes[axis]
        if isinstance(found, int) and (found < 0 or (size is not None and found >= size)):
            raise verify_error(operation, f"{word}: coordinate {found} is out of range [0, {size}) on grid axis {axis}")


def _check_elements(operation: ops.CollectiveOp) -> None:
    """Element types agree, and reductions apply to them."""
    source, result = operation.operands[0].type, operation.results[0].type
    if not isinstance(source, ContainerType) or not isinstance(result, ContainerType):
        return
    if type(source) is not type(result):
        raise verify_error(operation, f"from {source} to {result}: both must be tensors, or both memrefs")
    before, after = source.get_element_type(), result.get_element_type()
    if before != after and not isinstance(operation, _MAY_CONVERT):
        raise verify_error(
            operation, f"the element type of the result must be that of the input, {before}, found {after}"
        )
    reduction: Any = operation.properties.get("reduction")
    if reduction is not None and reduction.data.value.startswith("bitwise") and isinstance(after, AnyFloat):
        raise verify_error(operation, f"reduction {reduction.data.value} needs integers, found {after}")


def _tensor_axis(operation: Operation, word: str, rank: int) -> int:
    """An axis of the tensor, which exists."""
    attribute = operation.properties[word]
    axis = attribute.value.data if isinstance(attribute, IntegerAttr) else -1
    if not 0 <= axis < rank:
        raise verify_error(operation, f"{word} {axis} is out of bounds [0, {rank}) of the tensor's rank")
    return axis


def _expect(operation: Operation, wanted: tuple[Size, ...], found: tuple[Size, ...]) -> None:
    """Extents of the result: a known one must be the one that follows from the input; an open one may always stand."""
    if len(wanted) != len(found):
        raise verify_error(operation, f"the result must have {len(wanted)} dimensions, found {len(found)}")
    for dim, (want, have) in enumerate(zip(wanted, found)):
        if have is not None and have != want:
            needed = "dynamic ('?')" if want is None else want
            raise verify_error(operation, f"dimension {dim} of the result must be {needed}, found {have}")


def _same(operation: Operation, source: tuple[Size, ...], result: tuple[Size, ...], group: Size) -> None:
    """The result has the shape of the input."""
    differ = [a is not None and b is not None and a != b for a, b in zip(source, result)]
    if len(source) != len(result) or any(differ):
        raise verify_error(
            operation,
            f"the result must have the same shape as the input, {shape_text(source)}, found {shape_text(result)}",
        )


def _times(size: Size, group: Size) -> Size:
    return None if size is None or group is None else size * group


def _gather(operation: Operation, source: tuple[Size, ...], result: tuple[Size, ...], group: Size) -> None:
    """The gathered dimension grows by the size of the group."""
    axis = _tensor_axis(operation, "gather_axis", len(source))
    _expect(operation, (*source[:axis], _times(source[axis], group), *source[axis + 1 :]), result)


def _slice(word: str) -> Callable[[Operation, tuple[Size, ...], tuple[Size, ...], Size], None]:
    def check(operation: Operation, source: tuple[Size, ...], result: tuple[Size, ...], group: Size) -> None:
        """The dimension that is cut divides by the size of the group."""
        axis = _tensor_axis(operation, word, len(source))
        size = source[axis]
        part: Size = None
        if size is not None and group is not None:
            if size % group:
                raise verify_error(
                    operation, f"dimension {axis} of the input, {size}, must be divisible by the group's size {group}"
                )
            part = size // group
        _expect(operation, (*source[:axis], part, *source[axis + 1 :]), result)

    return check


def _all_to_all(operation: Operation, source: tuple[Size, ...], result: tuple[Size, ...], group: Size) -> None:
    """The split dimension shrinks as the other grows; one that does not divide has an open extent."""
    split = _tensor_axis(operation, "split_axis", len(source))
    concat = _tensor_axis(operation, "concat_axis", len(source))
    wanted = list(source)
    if split != concat:
        size = source[split]
        divides = size is not None and group is not None and size % group == 0
        wanted[split] = size // group if divides and size is not None and group is not None else None
        wanted[concat] = _times(source[concat], group)
    _expect(operation, tuple(wanted), result)


def _shift(operation: Operation, source: tuple[Size, ...], result: tuple[Size, ...], group: Size) -> None:
    """The axis of a shift is one of the group's."""
    axis: Any = operation.properties["shift_axis"]
    axes = operation.axes if isinstance(operation, ops.ShiftOp) else ()
    if axis.value.data not in axes:
        raise verify_error(operation, f"shift_axis {axis.value.data} must be one of grid_axes {list(axes)}")
    _same(operation, source, result, group)


_RULES: dict[type[Operation], Callable[[Operation, tuple[Size, ...], tuple[Size, ...], Size], None]] = {
    ops.AllGatherOp: _gather,
    ops.AllReduceOp: _same,
    ops.AllSliceOp: _slice("slice_axis"),
    ops.AllToAllOp: _all_to_all,
    ops.BroadcastOp: _same,
    ops.GatherOp: _gather,
    ops.RecvOp: _same,
    ops.ReduceOp: _same,
    ops.ReduceScatterOp: _slice("scatter_dim"),
    ops.ScatterOp: _slice("scatter_dim"),
    ops.SendOp: _same,
    ops.ShiftOp: _shift,
}


def check_update_halo(operation: ops.UpdateHaloOp, grids: Grids) -> None:
    """An exchange of halos: its axes exist, its halos are those of the dimensions that are cut, and fit in."""
    sizes = grids.sizes(operation, operation.grid_name)
    dims = ops.axes_lists(operation.split_axes)
    check_split_axes(operation, dims, sizes)
    check_markers(operation, "halo_sizes", numbers(operation.static_halo_sizes), operation.halo_sizes)
    shape = open_shape(operation.destination.type)
    if not shape:
        raise verify_error(operation, "the destination must have at least 1 dimension, found 0")
    cut = [dim for dim, axes in enumerate(dims) if axes]
    if cut and cut[-1] >= len(shape):
        raise verify_error(
            operation, f"split_axes cut dimension {cut[-1]}, the destination has {len(shape)} dimensions"
        )
    check_halos(operation, dims, operation.halos)
    if is_encoded(operation.destination.type):
        return  # of the whole tensor
    for n, dim in enumerate(cut):
        known = [halo for halo in operation.halos[2 * n : 2 * n + 2] if isinstance(halo, int)]
        size = shape[dim]
        if size is not None and sum(known) > size:
            raise verify_error(operation, f"halos {known} of dimension {dim} do not fit in its {size} cells")
