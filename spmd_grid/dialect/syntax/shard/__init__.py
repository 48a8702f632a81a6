"""The shard dialect: all its operations, in place of the part that xdsl has; and the types of our own texts.

collectives  the 13 operations that move data
shardings    operations on grids and shardings
"""

from __future__ import annotations

from xdsl.dialects.shard import ReductionKindAttr, ShardAxesArrayAttr, ShardingType
from xdsl.ir import Dialect

from spmd_grid.dialect.syntax.encodings import DtypeType, EncodingAttr
from spmd_grid.dialect.syntax.shard import collectives, shardings

__all__ = ["EMITC", "SHARD"]

SHARD = Dialect(
    "shard",
    [
        collectives.AllGatherOp,
        collectives.AllReduceOp,
        collectives.AllSliceOp,
        collectives.AllToAllOp,
        collectives.BroadcastOp,
        collectives.GatherOp,
        collectives.RecvOp,
        collectives.ReduceOp,
        collectives.ReduceScatterOp,
        collectives.ScatterOp,
        collectives.SendOp,
        collectives.ShiftOp,
        collectives.UpdateHaloOp,
        shardings.GetShardingOp,
        shardings.GridOp,
        shardings.GridShapeOp,
        shardings.NeighborsLinearIndicesOp,
        shardings.ProcessLinearIndexOp,
        shardings.ProcessMultiIndexOp,
        shardings.ShardOp,
        shardings.ShardShapeOp,
        shardings.ShardingOp,
    ],
    [EncodingAttr, ReductionKindAttr, ShardAxesArrayAttr, ShardingType],
)

EMITC = Dialect("emitc", [], [DtypeType])
