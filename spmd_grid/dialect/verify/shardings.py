"""Rules on shardings and on what they annotate.

These rules go beyond the dialect's own verifier: axes exist on the grid; offsets begin with 0 and cover the dimension
(when several axes cut it, with an entry for each of their devices); halos are not negative; the tensor has every
dimension that is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ContainerType, TensorType
from xdsl.ir import Operation, SSAValue

from spmd_grid.dialect.syntax.directives import numbers
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.syntax.shard.shardings import ShardingOp, ShardOp, ShardShapeOp
from spmd_grid.dialect.verify.grids import Grids, Sizes, check_axes, check_markers, known_group_size

__all__ = [
    "check_halos",
    "check_shard",
    "check_shard_shape",
    "check_sharding_op",
    "check_split_axes",
    "offsets_by_dim",
    "open_shape",
]


def open_shape(kind: object) -> tuple[int | None, ...]:
    """The extents of a tensor or memref; None where they are left open."""
    if not isinstance(kind, ContainerType) or not hasattr(kind, "get_shape"):
        return ()
    return tuple([None if n < 0 else n for n in kind.get_shape()])


def check_split_axes(operation: Operation, dims: Sequence[Sequence[int]], sizes: Sizes) -> None:
    """Every grid axis cuts one dimension at most, and exists."""
    check_axes(operation, [axis for axes in dims for axis in axes], sizes)


def check_halos(operation: Operation, dims: Sequence[Sequence[int]], halos: Sequence[int | SSAValue]) -> None:
    """Two halos for each dimension that is cut, none negative."""
    cut = sum([bool(axes) for axes in dims])
    if len(halos) != 2 * cut:
        raise verify_error(
            operation,
            f"halo sizes: expected 2 for each of {cut} split dimensions, {2 * cut} in all, found {len(halos)}",
        )
    for halo in halos:
        if isinstance(halo, int) and halo < 0:
            raise verify_error(operation, f"halo size {halo} is negative")


def check_sharding_op(operation: ShardingOp, grids: Grids) -> None:
    """A sharding by itself."""
    sizes = grids.sizes(operation, operation.grid_name)
    axes, kind = operation.partial
    check_split_axes(operation, [*operation.dims, axes], sizes)
    if kind in ("average", "generic"):
        raise verify_error(operation, f"values cannot be partial by {kind}")
    static_halos = numbers(operation.static_halo_sizes)
    static_offsets = numbers(operation.static_sharded_dims_offsets)
    check_markers(operation, "halo_sizes", static_halos, operation.dynamic_halo_sizes)
    check_markers(operation, "sharded_dims_offsets", static_offsets, operation.dynamic_sharded_dims_offsets)
    if operation.halos and operation.offsets:
        raise verify_error(operation, "halo sizes and offsets of blocks are mutually exclusive")
    if operation.halos:
        check_halos(operation, operation.dims, operation.halos)
    if operation.offsets:
        _check_offsets(operation, sizes)


def _check_offsets(operation: ShardingOp, sizes: Sizes) -> None:
    """The offsets: a start per block and an end, from 0, never decreasing, for each dimension that is cut."""
    counts = [known_group_size(axes, sizes) for axes in operation.dims if axes]
    if None in counts:
        raise verify_error(operation, "offsets of blocks need a grid whose axes have known sizes, found '?'")
    wanted = sum([n + 1 for n in counts if n is not None])
    if len(counts) == 1:
        _check_order(operation, operation.offsets)
    if len(operation.offsets) != wanted:
        each = " + ".join([f"{n} blocks and an end" for n in counts]) or "no split dimension"
        found = len(operation.offsets)
        raise verify_error(
            operation, f"offsets of blocks have the wrong size: expected {wanted} ({each}), found {found}"
        )
    for dim, offsets in offsets_by_dim(operation, sizes):
        if isinstance(offsets[0], int) and offsets[0] != 0:
            raise verify_error(operation, f"the offsets of dimension {dim} must begin with 0, found {offsets[0]}")
        _check_order(operation, offsets)


def _check_order(operation: ShardingOp, offsets: Sequence[int | SSAValue]) -> None:
    """The known offsets of a dimension do not decrease."""
    known = [n for n in offsets if isinstance(n, int)]
    for low, high in zip(known, known[1:]):
        if high < low:
            raise verify_error(operation, f"the offsets of a dimension are decreasing: {high} after {low}")


def offsets_by_dim(operation: ShardingOp, sizes: Sizes) -> Iterator[tuple[int, tuple[int | SSAValue, ...]]]:
    """The offsets of each dimension that is cut, as the flat list holds them."""
    at = 0
    for dim, axes in enumerate(operation.dims):
        count = known_group_size(axes, sizes) if axes else None
        if count is not None:
            yield dim, operation.offsets[at : at + count + 1]
            at += count + 1


def _sharding_of(value: SSAValue) -> ShardingOp | None:
    return value.owner if isinstance(value.owner, ShardingOp) else None


def check_shard(operation: ShardOp, grids: Grids) -> None:
    """A sharding fits the tensor that it annotates."""
    sharding = _sharding_of(operation.sharding)
    if sharding is None or not isinstance(operation.src.type, TensorType):
        return
    shape = open_shape(operation.src.type)
    for dim, axes in enumerate(sharding.dims):
        if axes and dim >= len(shape):
            raise verify_error(operation, f"the sharding cuts dimension {dim}, the tensor has {len(shape)} dimensions")
    if not sharding.offsets:
        return
    for dim, offsets in offsets_by_dim(sharding, grids.sizes(sharding, sharding.grid_name)):
        end, size = offsets[-1], shape[dim]
        if isinstance(end, int) and size is not None and end != size:
            raise verify_error(operation, f"the offsets of dimension {dim} end with {end}; the tensor has {size} there")


def check_shard_shape(operation: ShardShapeOp, grids: Grids) -> None:
    """Extents, device and results of a shard_shape agree with its sharding."""
    check_markers(operation, "dims", numbers(operation.dims), operation.dims_dynamic)
    check_markers(operation, "device", numbers(operation.device), operation.device_dynamic)
    dims, device = operation.all_dims, operation.all_device
    if len(operation.results) != len(dims):
        raise verify_error(
            operation, f"expected {len(dims)} results, one per dimension, found {len(operation.results)}"
        )
    if any([isinstance(n, int) and n < 0 for n in dims]):
        raise verify_error(operation, f"a negative extent in {[n for n in dims if isinstance(n, int)]}")
    sharding = _sharding_of(operation.sharding)
    if sharding is None:
        return
    sizes = grids.sizes(sharding, sharding.grid_name)
    used = [dim for dim, axes in enumerate(sharding.dims) if axes]
    if used and used[-1] >= len(dims):
        raise verify_error(operation, f"the sharding cuts dimension {used[-1]}, the shape has {len(dims)} dimensions")
    # A device that cuts nothing is not looked at: the dialect's own tests name one coordinate of three then.
    if used and len(device) != len(sizes):
        raise verify_error(operation, f"a device of this grid has {len(sizes)} coordinates, found {len(device)}")
    if not used:
        return
    for axis, (found, size) in enumerate(zip(device, sizes)):
        if isinstance(found, int) and (found < 0 or (size is not None and found >= size)):
            raise verify_error(
                operation, f"coordinate {found} of the device is out of bounds [0, {size}) on axis {axis}"
            )
