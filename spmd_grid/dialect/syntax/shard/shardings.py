"""The operations of the shard dialect on grids and shardings.

Names of attributes and the pretty forms are those of ``mlir/Dialect/Shard/IR/ShardOps.td``, as of September 2026.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    BytesAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    IndexType,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    i16,
    i64,
)
from xdsl.dialects.shard import ReductionKindAttr, ShardAxesArrayAttr, ShardAxesAttr, ShardingType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, SymbolOpInterface

from spmd_grid.dialect.syntax.directives import DIRECTIVES, mixed, numbers
from spmd_grid.dialect.syntax.shard.collectives import axes_lists

__all__ = [
    "GetShardingOp",
    "GridOp",
    "GridShapeOp",
    "GridUserOp",
    "NeighborsLinearIndicesOp",
    "ProcessLinearIndexOp",
    "ProcessMultiIndexOp",
    "ShardOp",
    "ShardShapeOp",
    "ShardingOp",
]

_NO_AXES = ShardAxesAttr(i16, BytesAttr(b""))
_NO_NUMBERS = DenseArrayBase[I64](i64, BytesAttr(b""))


@irdl_op_definition
class GridOp(IRDLOperation):
    """A grid of devices, as a symbol."""

    name = "shard.grid"
    sym_name = prop_def(SymbolNameConstraint())
    shape = prop_def(DenseArrayBase[I64])
    traits = traits_def(SymbolOpInterface(), Pure())
    custom_directives = DIRECTIVES
    assembly_format = "$sym_name `(` `shape` `=` custom<Sizes>($shape) `)` attr-dict"

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Devices per axis; None where the program leaves it open."""
        return tuple([None if n == DYNAMIC_INDEX else n for n in numbers(self.shape)])


class GridUserOp(IRDLOperation, ABC):
    """An operation that names a grid."""

    grid = prop_def(FlatSymbolRefAttr)
    custom_directives = DIRECTIVES
    traits = traits_def(Pure())

    @property
    def grid_name(self) -> str:
        """The symbol of the grid."""
        return self.grid.root_reference.data


@irdl_op_definition
class GridShapeOp(GridUserOp):
    """Devices along the listed axes, or along all."""

    name = "shard.grid_shape"
    axes = prop_def(ShardAxesAttr, default_value=_NO_AXES)
    result = var_result_def(IndexType)
    assembly_format = "$grid (`axes` `=` $axes^)? attr-dict `:` type($result)"


@irdl_op_definition
class ProcessMultiIndexOp(GridUserOp):
    """The own coordinates along the listed axes, or along all."""

    name = "shard.process_multi_index"
    axes = prop_def(ShardAxesAttr, default_value=_NO_AXES)
    result = var_result_def(IndexType)
    assembly_format = "`on` $grid (`axes` `=` $axes^)? attr-dict `:` type($result)"


@irdl_op_definition
class ProcessLinearIndexOp(GridUserOp):
    """The own index in row-major order."""

    name = "shard.process_linear_index"
    result = result_def(IndexType)
    assembly_format = "`on` $grid attr-dict `:` type($result)"


@irdl_op_definition
class NeighborsLinearIndicesOp(GridUserOp):
    """The linear indices of the neighbours of a device along one axis; -1 where there is none."""

    name = "shard.neighbors_linear_indices"
    device = var_operand_def(IndexType)
    split_axes = prop_def(ShardAxesAttr)
    neighbor_down = result_def(IndexType)
    neighbor_up = result_def(IndexType)
    assembly_format = (
        "`on` $grid `[` $device `]` `split_axes` `=` $split_axes attr-dict `:` "
        "type($neighbor_down) `,` type($neighbor_up)"
    )


@irdl_op_definition
class ShardingOp(GridUserOp):
    """A sharding: grid axes per tensor dimension, with halos or with offsets of the blocks.

    Partial axes left the dialect in July 2025.  The engine has them, so they are read and written as before.
    """

    name = "shard.sharding"
    split_axes = prop_def(ShardAxesArrayAttr)
    partial_axes = opt_prop_def(ShardAxesAttr)
    partial_type = opt_prop_def(ReductionKindAttr)
    static_sharded_dims_offsets = prop_def(DenseArrayBase[I64], default_value=_NO_NUMBERS)
    dynamic_sharded_dims_offsets = var_operand_def(I64)
    static_halo_sizes = prop_def(DenseArrayBase[I64], default_value=_NO_NUMBERS)
    dynamic_halo_sizes = var_operand_def(I64)
    result = result_def(ShardingType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$grid `split_axes` `=` $split_axes "
        "(`partial` `=` custom<Reduction>($partial_type) $partial_axes^)? "
        "(`halo_sizes` `=` custom<DynamicIndexList>($dynamic_halo_sizes, $static_halo_sizes)^)? "
        "(`sharded_dims_offsets` `=` "
        "custom<DynamicIndexList>($dynamic_sharded_dims_offsets, $static_sharded_dims_offsets)^)? "
        "attr-dict `:` type($result)"
    )

    @property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """The grid axes per tensor dimension, outermost first; dimensions that are left out are whole."""
        return axes_lists(self.split_axes)

    @property
    def partial(self) -> tuple[tuple[int, ...], str]:
        """The grid axes along which values are parts of a reduction, and the reduction."""
        return numbers(self.partial_axes), self.partial_type.data.value if self.partial_type else "sum"

    @property
    def halos(self) -> tuple[int | SSAValue, ...]:
        """Low and high size per sharded dimension: numbers, or values of the program."""
        return mixed(numbers(self.static_halo_sizes), iter(self.dynamic_halo_sizes))

    @property
    def offsets(self) -> tuple[int | SSAValue, ...]:
        """The starts of the blocks and the end of the last, for each sharded dimension in turn."""
        return mixed(numbers(self.static_sharded_dims_offsets), iter(self.dynamic_sharded_dims_offsets))


@irdl_op_definition
class ShardOp(IRDLOperation):
    """An annotation: the sharding of a value, or of a value for its users."""

    name = "shard.shard"
    T: ClassVar = VarConstraint("T", TensorType.constr())
    src = operand_def(T)
    sharding = operand_def(ShardingType)
    annotate_for_users = opt_prop_def(UnitAttr)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$src `to` $sharding (`annotate_for_users` $annotate_for_users^)? attr-dict `:` type($result)"


@irdl_op_definition
class GetShardingOp(IRDLOperation):
    """The sharding of a value that an annotation gave it."""

    name = "shard.get_sharding"
    source = operand_def(TensorType)
    result = result_def(ShardingType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"


@irdl_op_definition
class ShardShapeOp(IRDLOperation):
    """The shape of a device's block."""

    name = "shard.shard_shape"
    dims = prop_def(DenseArrayBase[I64])
    dims_dynamic = var_operand_def(IndexType)
    sharding = operand_def(ShardingType)
    device = prop_def(DenseArrayBase[I64])
    device_dynamic = var_operand_def(IndexType)
    result = var_result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = DIRECTIVES
    assembly_format = (
        "`dims` `=` custom<DynamicIndexList>($dims_dynamic, $dims) `sharding` `=` $sharding "
        "`device` `=` custom<DynamicIndexList>($device_dynamic, $device) attr-dict `:` type($result)"
    )

    @property
    def all_dims(self) -> tuple[int | SSAValue, ...]:
        """The extents of the whole tensor: numbers, or values of the program."""
        return mixed(numbers(self.dims), iter(self.dims_dynamic))

    @property
    def all_device(self) -> tuple[int | SSAValue, ...]:
        """The coordinates of the device: numbers, or values of the program."""
        return mixed(numbers(self.device), iter(self.device_dynamic))
