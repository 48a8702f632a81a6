"""The checks and conversions that all reducing operations share."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ReductionError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.ops.calls.arguments import as_dtype
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.shape_rules import equal_shapes, same_dtype
from spmd_grid.reduction_kind import as_reduction, result_dtype

__all__ = ["Reducing"]


class Reducing(CollectiveOperation):
    """Base of the reducing operations: checks the reduction, converts to the result's dtype, compares shapes.

    The values are combined by the `Reduction` that ``resolve`` of each makes.
    """

    needs_contiguous = True

    def prepare_reduction(self, reduction: Any, dtype: Any) -> dict[str, Any]:
        """Check the reduction and the requested dtype."""
        try:
            return {"reduction": as_reduction(reduction), "dtype": as_dtype(self.name, dtype)}
        except ReductionError as error:
            raise ReductionError(f"{self.name}: {error}") from None

    def convert(self, call: CollectiveCall, x: np.ndarray) -> np.ndarray:
        """Convert x to the dtype of the result, C-contiguous, before anything is combined."""
        try:
            dtype = result_dtype(call.args.reduction, x.dtype, call.args.dtype)
        except DTypeError as error:
            raise DTypeError(f"{self.name}: {error}") from None
        if x.dtype == dtype:
            return x if x.flags.c_contiguous else x.copy("C")
        with np.errstate(all="ignore"):  # a warning that is an error on one member would leave the others waiting
            return x.astype(dtype, order="C")

    def check(self, call: CollectiveCall, facts: list[Facts]) -> None:
        """Refuse arrays of different shapes or dtypes."""
        equal_shapes(self.name, facts, call.label)
        same_dtype(self.name, facts, call.label)
