"""The collectives of stablehlo, of processes that ``replica_groups`` lists by number, and the numbers of a process."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from spmd_grid.dialect.syntax.other_dialects.stablehlo.reduce import combiner_of

__all__ = ["COLLECTIVES", "ChannelHandleAttr", "HloCollectiveOp", "HloReducingOp"]


@irdl_attr_definition
class ChannelHandleAttr(ParametrizedAttribute):
    """A channel: above 0, numbers in ``replica_groups`` may be those of partitions."""

    name = "stablehlo.channel_handle"
    handle: IntegerAttr
    type: IntegerAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Read ``<handle = 0, type = 0>``."""
        found = []
        with parser.in_angle_brackets():
            for number, word in enumerate(("handle", "type")):
                if number:
                    parser.parse_punctuation(",")
                parser.parse_keyword(word)
                parser.parse_punctuation("=")
                found.append(IntegerAttr(parser.parse_integer(allow_boolean=False), i64))
        return found

    def print_parameters(self, printer: Printer) -> None:
        """Write ``<handle = 0, type = 0>``."""
        printer.print_string(f"<handle = {self.handle.value.data}, type = {self.type.value.data}>")


class HloCollectiveOp(IRDLOperation, ABC):
    """A collective, on one array or on several, each for itself."""

    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    use_global_device_ids = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

    @property
    def channel(self) -> int:
        """The number of the channel; 0 without one."""
        return 0 if self.channel_handle is None else int(self.channel_handle.handle.value.data)

    def verify_(self) -> None:
        """Check that every array has a result."""
        if not self.inputs or len(self.inputs) != len(self.outputs):
            raise VerifyException(f"expected a result for each operand, found {len(self.outputs)}")


class HloReducingOp(HloCollectiveOp, ABC):
    """A collective that combines by a body of two numbers."""

    body = region_def("single_block")

    def verify_(self) -> None:
        """Check that the body has two arguments of one type, and gives one."""
        super().verify_()
        block = self.body.block
        types = {x.type for x in block.args}
        last = block.last_op
        given = [x.type for x in last.operands] if last is not None else []
        if len(block.args) != 2 or len(types) != 1 or given != [*types]:
            raise VerifyException("the body must take two numbers of one type, and return one of it")

    @property
    def combiner(self) -> str | None:
        """The name of the only operation of the body, such as ``stablehlo.add``; None for others."""
        return combiner_of(self.body)


@irdl_op_definition
class HloAllGatherOp(HloCollectiveOp):
    """The arrays of a group, concatenated."""

    name = "stablehlo.all_gather"
    all_gather_dim = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)


@irdl_op_definition
class HloAllReduceOp(HloReducingOp):
    """The arrays of a group, combined."""

    name = "stablehlo.all_reduce"
    replica_groups = prop_def(DenseIntOrFPElementsAttr)


@irdl_op_definition
class HloReduceScatterOp(HloReducingOp):
    """A part of the arrays of a group, combined."""

    name = "stablehlo.reduce_scatter"
    scatter_dimension = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)


@irdl_op_definition
class HloAllToAllOp(HloCollectiveOp):
    """Parts of the arrays of a group, each sent to another process, and joined there."""

    name = "stablehlo.all_to_all"
    split_dimension = prop_def(IntegerAttr)
    concat_dimension = prop_def(IntegerAttr)
    split_count = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)


@irdl_op_definition
class HloCollectiveBroadcastOp(HloCollectiveOp):
    """The array of the first process of a group; zeros on processes of no group."""

    name = "stablehlo.collective_broadcast"
    replica_groups = prop_def(DenseIntOrFPElementsAttr)


@irdl_op_definition
class HloCollectivePermuteOp(HloCollectiveOp):
    """The array of the process that a pair leads from; zeros where no pair ends."""

    name = "stablehlo.collective_permute"
    source_target_pairs = prop_def(DenseIntOrFPElementsAttr)


class _NumberOp(IRDLOperation, ABC):
    """A number of the process."""

    output = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($output)"


@irdl_op_definition
class ReplicaIdOp(_NumberOp):
    """The number of this process's replica."""

    name = "stablehlo.replica_id"


@irdl_op_definition
class PartitionIdOp(_NumberOp):
    """The number of this process's partition."""

    name = "stablehlo.partition_id"


COLLECTIVES: list[Any] = [
    *(HloAllGatherOp, HloAllReduceOp, HloReduceScatterOp, HloAllToAllOp),
    *(HloCollectiveBroadcastOp, HloCollectivePermuteOp, ReplicaIdOp, PartitionIdOp),
]
