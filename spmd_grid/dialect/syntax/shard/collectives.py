"""The 13 operations of the shard dialect that move data, and their typed parts.

Names of attributes and the pretty forms are those of ``mlir/Dialect/Shard/IR/ShardOps.td``, as of September 2026.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    IndexType,
    IndexTypeConstr,
    IntegerAttr,
    MemRefType,
    TensorType,
    UnitAttr,
    i16,
    i64,
)
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr, ShardAxesArrayAttr, ShardAxesAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from spmd_grid.dialect.syntax.directives import DIRECTIVES, mixed, numbers

__all__ = [
    "AllGatherOp",
    "AllReduceOp",
    "AllSliceOp",
    "AllToAllOp",
    "BroadcastOp",
    "CollectiveOp",
    "GatherOp",
    "RecvOp",
    "ReduceOp",
    "ReduceScatterOp",
    "RootedOp",
    "ScatterOp",
    "SendOp",
    "ShiftOp",
    "UpdateHaloOp",
    "axes_lists",
]

_NO_AXES = ShardAxesAttr(i16, BytesAttr(b""))
_NO_NUMBERS = DenseArrayBase[I64](i64, BytesAttr(b""))
_SUM = ReductionKindAttr(ReductionKind.SUM)
_ANY = TensorType.constr() | MemRefType.constr()
_INDEX = IntegerAttr.constr(IndexTypeConstr)

_HEAD = "$input `on` $grid (`grid_axes` `=` $grid_axes^)? "
_REDUCTION = "(`reduction` `=` custom<Reduction>($reduction)^)? "
_ARROW = "attr-dict `:` type($input) `->` type($result)"
_FUNCTION = "attr-dict `:` functional-type(operands, results)"


def axes_lists(attribute: ShardAxesArrayAttr) -> tuple[tuple[int, ...], ...]:
    """The grid axes per tensor dimension."""
    lists: ArrayAttr[ShardAxesAttr] = attribute.axes
    return tuple([numbers(each) for each in lists])


class CollectiveOp(IRDLOperation, ABC):
    """An operation of the groups that ``grid_axes`` spans."""

    grid = prop_def(FlatSymbolRefAttr)
    grid_axes = prop_def(ShardAxesAttr, default_value=_NO_AXES)

    custom_directives = DIRECTIVES

    @property
    def grid_name(self) -> str:
        """The symbol of the grid."""
        return self.grid.root_reference.data

    @property
    def axes(self) -> tuple[int, ...]:
        """The grid axes that span the group, outermost first; none for groups of one device."""
        return numbers(self.grid_axes)


class RootedOp(CollectiveOp, ABC):
    """An operation that names one device of the group."""

    DEVICE: ClassVar[str] = "root"

    @property
    def device(self) -> tuple[int | SSAValue, ...] | None:
        """The coordinates of the device along ``grid_axes``: numbers, or values of the program; None if left out."""
        static = self.properties.get(self.DEVICE)
        if static is None:
            return None
        dynamic = getattr(self, f"{self.DEVICE}_dynamic")
        return mixed(numbers(static), iter(dynamic))  # type: ignore[arg-type]


@irdl_op_definition
class AllGatherOp(CollectiveOp):
    """Concatenate the inputs of the group along ``gather_axis``; tensors and memrefs."""

    name = "shard.all_gather"
    input = operand_def(_ANY)
    gather_axis = prop_def(_INDEX)
    result = result_def(_ANY)
    traits = traits_def(Pure())
    assembly_format = _HEAD + "`gather_axis` `=` $gather_axis " + _ARROW


@irdl_op_definition
class AllReduceOp(CollectiveOp):
    """Reduce over the group; tensors and memrefs."""

    name = "shard.all_reduce"
    input = operand_def(_ANY)
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    result = result_def(_ANY)
    traits = traits_def(Pure())
    assembly_format = _HEAD + _REDUCTION + _ARROW


@irdl_op_definition
class AllSliceOp(CollectiveOp):
    """Cut the own input at the index in the group."""

    name = "shard.all_slice"
    input = operand_def(TensorType)
    slice_axis = prop_def(_INDEX)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _HEAD + "`slice_axis` `=` $slice_axis " + _ARROW


@irdl_op_definition
class AllToAllOp(CollectiveOp):
    """Split along ``split_axis``, send the pieces round, concatenate along ``concat_axis``."""

    name = "shard.all_to_all"
    input = operand_def(TensorType)
    split_axis = prop_def(_INDEX)
    concat_axis = prop_def(_INDEX)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _HEAD + "`split_axis` `=` $split_axis `concat_axis` `=` $concat_axis " + _ARROW


@irdl_op_definition
class BroadcastOp(RootedOp):
    """Copy the root's input to the group."""

    name = "shard.broadcast"
    input = operand_def(TensorType)
    root = prop_def(DenseArrayBase[I64])
    root_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _HEAD + "`root` `=` custom<DynamicIndexList>($root_dynamic, $root) " + _FUNCTION


@irdl_op_definition
class GatherOp(RootedOp):
    """Concatenate the inputs of the group on the root."""

    name = "shard.gather"
    input = operand_def(TensorType)
    gather_axis = prop_def(_INDEX)
    root = prop_def(DenseArrayBase[I64])
    root_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        _HEAD + "`gather_axis` `=` $gather_axis `root` `=` custom<DynamicIndexList>($root_dynamic, $root) " + _FUNCTION
    )


@irdl_op_definition
class RecvOp(RootedOp):
    """Receive from a device of the group, or from any."""

    name = "shard.recv"
    DEVICE: ClassVar[str] = "source"
    input = operand_def(TensorType)
    source = opt_prop_def(DenseArrayBase[I64])
    source_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    assembly_format = _HEAD + "(`source` `=` custom<OptionalIndexList>($source_dynamic, $source)^)? " + _FUNCTION


@irdl_op_definition
class ReduceOp(RootedOp):
    """Reduce over the group; the result is the root's."""

    name = "shard.reduce"
    input = operand_def(TensorType)
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    root = prop_def(DenseArrayBase[I64])
    root_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _HEAD + _REDUCTION + "`root` `=` custom<DynamicIndexList>($root_dynamic, $root) " + _FUNCTION


@irdl_op_definition
class ReduceScatterOp(CollectiveOp):
    """Reduce over the group, then cut along ``scatter_dim``; tensors and memrefs."""

    name = "shard.reduce_scatter"
    input = operand_def(_ANY)
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    scatter_dim = prop_def(_INDEX)
    result = result_def(_ANY)
    traits = traits_def(Pure())
    assembly_format = _HEAD + _REDUCTION + "`scatter_dim` `=` $scatter_dim " + _ARROW


@irdl_op_definition
class ScatterOp(RootedOp):
    """Cut the root's input along ``scatter_dim`` and send one piece to each device of the group."""

    name = "shard.scatter"
    input = operand_def(TensorType)
    scatter_dim = prop_def(_INDEX)
    root = prop_def(DenseArrayBase[I64])
    root_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        _HEAD + "`scatter_dim` `=` $scatter_dim `root` `=` custom<DynamicIndexList>($root_dynamic, $root) " + _FUNCTION
    )


@irdl_op_definition
class SendOp(RootedOp):
    """Send to a device of the group."""

    name = "shard.send"
    DEVICE: ClassVar[str] = "destination"
    input = operand_def(TensorType)
    destination = prop_def(DenseArrayBase[I64])
    destination_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    assembly_format = (
        _HEAD + "`destination` `=` custom<DynamicIndexList>($destination_dynamic, $destination) " + _FUNCTION
    )


@irdl_op_definition
class ShiftOp(CollectiveOp):
    """Move data along ``shift_axis`` by ``offset`` devices; with ``rotate`` around the end."""

    name = "shard.shift"
    input = operand_def(TensorType)
    shift_axis = prop_def(_INDEX)
    offset = prop_def(IntegerAttr[I64])
    rotate = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _HEAD + "`shift_axis` `=` $shift_axis `offset` `=` $offset (`rotate` $rotate^)? " + _ARROW


@irdl_op_definition
class UpdateHaloOp(IRDLOperation):
    """Copy the borders of the neighbours' cores into the own halos; tensors and memrefs."""

    name = "shard.update_halo"
    T: ClassVar = VarConstraint("T", _ANY)
    destination = operand_def(T)
    grid = prop_def(FlatSymbolRefAttr)
    split_axes = prop_def(ShardAxesArrayAttr)
    halo_sizes = var_operand_def(I64)
    static_halo_sizes = prop_def(DenseArrayBase[I64], default_value=_NO_NUMBERS)
    result = result_def(T)
    custom_directives = DIRECTIVES
    assembly_format = (
        "$destination `on` $grid `split_axes` `=` $split_axes "
        "(`halo_sizes` `=` custom<DynamicIndexList>($halo_sizes, $static_halo_sizes)^)? "
        "attr-dict `:` type($result)"
    )

    @property
    def grid_name(self) -> str:
        """The symbol of the grid."""
        return self.grid.root_reference.data

    @property
    def halos(self) -> tuple[int | SSAValue, ...]:
        """Low and high size per sharded dimension: numbers, or values of the program."""
        return mixed(numbers(self.static_halo_sizes), iter(self.halo_sizes))
