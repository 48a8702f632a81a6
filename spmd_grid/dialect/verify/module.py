"""All rules, on every operation of a module."""

from __future__ import annotations

from itertools import chain

from xdsl.dialects.builtin import ContainerType, IndexType, IntegerAttr, ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from spmd_grid.dialect.syntax.other_dialects.stablehlo.collectives import HloCollectiveOp
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.syntax.shard.collectives import CollectiveOp, UpdateHaloOp
from spmd_grid.dialect.syntax.shard.shardings import GridOp, ShardingOp, ShardOp, ShardShapeOp
from spmd_grid.dialect.verify.collectives import check_collective, check_update_halo
from spmd_grid.dialect.verify.dense import check_dense
from spmd_grid.dialect.verify.grids import Grids, check_grid_op, check_grid_user
from spmd_grid.dialect.verify.gspmd import check_gspmd
from spmd_grid.dialect.verify.order import check_names, check_order
from spmd_grid.dialect.verify.own_calls import check_own
from spmd_grid.dialect.verify.process_groups import check_among, check_number
from spmd_grid.dialect.verify.shardings import check_shard, check_shard_shape, check_sharding_op
from spmd_grid.dialect.verify.tensors import check_tensor
from spmd_grid.errors import DialectVerifyError

__all__ = ["verify"]

_LARGEST = 2**63  # extents are 64-bit integers with a sign


def verify(module: ModuleOp) -> None:
    """Check every operation.  DialectVerifyError for the first that is wrong, with its position.  Local."""
    check_names(module)
    for operation in module.walk():
        _check_form(operation)
        check_gspmd(operation, module)
    grids = Grids([each for each in module.walk() if isinstance(each, GridOp)])
    for operation in module.walk():
        check_order(operation)
        if operation.name.startswith("shard."):
            _check_shard(operation, grids)
        elif isinstance(operation, UnregisteredOp):
            check_own(operation)
        elif isinstance(operation, HloCollectiveOp):
            check_among(operation)
        elif operation.name in ("stablehlo.replica_id", "stablehlo.partition_id"):
            check_number(operation)
        else:
            check_dense(operation)
            check_tensor(operation)
            if isinstance(operation, FuncOp):
                _check_function(operation)


def _check_form(operation: Operation) -> None:
    """Check operands, attributes, types and regions against the operation's definition."""
    try:
        operation.verify(verify_nested_ops=False)
    except DialectVerifyError:
        raise
    except Exception as error:
        # xdsl's definitions raise errors of their own kinds, and others on operations that no printer would write.
        lines = str(error).strip().splitlines()
        raise verify_error(operation, lines[-1].strip() if lines else type(error).__name__) from None
    for value in chain(operation.results, *[block.args for region in operation.regions for block in region.blocks]):
        kind = value.type
        if isinstance(kind, ContainerType) and hasattr(kind, "get_shape"):
            if any([n >= _LARGEST for n in kind.get_shape()]):
                raise verify_error(operation, f"an extent of {kind} needs more than 64 bits")
    for name, number in chain(operation.properties.items(), operation.attributes.items()):
        if isinstance(number, IntegerAttr) and isinstance(number.type, IndexType):
            if not -_LARGEST <= number.value.data < _LARGEST:
                raise verify_error(operation, f"{name} {number.value.data} needs more than 64 bits")


def _check_function(operation: FuncOp) -> None:
    """A function ends with a return; one without a body is private."""
    name = operation.sym_name.data
    if not operation.body.blocks and (operation.sym_visibility is None or operation.sym_visibility.data == "public"):
        raise verify_error(operation, f"@{name} has no body; it must be private")
    for block in operation.body.blocks:
        last = block.last_op
        if last is not None and last.name.endswith((".yield", ".return")) and last.name != "func.return":
            raise verify_error(last, f"it stands at the end of @{name}, where func.return is")


def _check_shard(operation: Operation, grids: Grids) -> None:
    """Check an operation of the shard dialect."""
    if isinstance(operation, GridOp):
        check_grid_op(operation)
    elif isinstance(operation, ShardingOp):
        check_sharding_op(operation, grids)
    elif isinstance(operation, ShardOp):
        check_shard(operation, grids)
    elif isinstance(operation, ShardShapeOp):
        check_shard_shape(operation, grids)
    elif isinstance(operation, CollectiveOp):
        check_collective(operation, grids)
    elif isinstance(operation, UpdateHaloOp):
        check_update_halo(operation, grids)
    else:
        check_grid_user(operation, grids)
