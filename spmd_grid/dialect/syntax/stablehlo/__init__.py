"""The part of stablehlo that dense networks use.  Texts of ``mhlo``, as in the RFC of the dialect, are read as it.

attributes   dimensions of products, precisions, comparisons
base         the shape that pretty forms share
dot_general  products
operations   elementwise operations, moves of dimensions, constants
reduce       reductions
"""

from __future__ import annotations

from xdsl.ir import Dialect

from spmd_grid.dialect.syntax.stablehlo.attributes import ComparisonAttr, ComparisonTypeAttr, DotAttr, PrecisionAttr
from spmd_grid.dialect.syntax.stablehlo.operations import OPERATIONS
from spmd_grid.dialect.syntax.stablehlo.reduce import HloReduceOp

__all__ = ["STABLEHLO"]

STABLEHLO = Dialect(
    "stablehlo", [*OPERATIONS, HloReduceOp], [ComparisonAttr, ComparisonTypeAttr, DotAttr, PrecisionAttr]
)
