"""The part of stablehlo that dense networks use.  Texts of ``mhlo``, as in the RFC of the dialect, are read as it.

attributes   dimensions of products, precisions, comparisons
base         the shape that pretty forms share
dot_general  products
moving       slices that start where values say, borders, other directions
operations   elementwise operations, moves of dimensions, constants
reduce       reductions
collectives  collectives of processes that are listed by number
"""

from __future__ import annotations

from xdsl.ir import Dialect

from spmd_grid.dialect.syntax.other_dialects.stablehlo.attributes import (
    ComparisonAttr,
    ComparisonTypeAttr,
    DotAttr,
    PrecisionAttr,
)
from spmd_grid.dialect.syntax.other_dialects.stablehlo.collectives import COLLECTIVES, ChannelHandleAttr
from spmd_grid.dialect.syntax.other_dialects.stablehlo.moving import MOVING
from spmd_grid.dialect.syntax.other_dialects.stablehlo.operations import OPERATIONS
from spmd_grid.dialect.syntax.other_dialects.stablehlo.reduce import HloReduceOp

__all__ = ["STABLEHLO"]

STABLEHLO = Dialect(
    "stablehlo",
    [*OPERATIONS, *COLLECTIVES, *MOVING, HloReduceOp],
    [ChannelHandleAttr, ComparisonAttr, ComparisonTypeAttr, DotAttr, PrecisionAttr],
)
