"""New arrays of any cells, which are written to before they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.typing import MultiIndex

__all__ = ["Fresh"]


@dataclass(frozen=True)
class Fresh:
    """An array whose cells are 0."""

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """A new block on every device."""
        (value,) = operation.results
        sharding = splits.sharding(operation.interface.results[0])

        def bind(coords: MultiIndex) -> Callable[[], Any]:
            shape = sharding.local_shape(value.shape, coords)
            return lambda: np.zeros(shape, value.dtype)

        key = "new", value.shape, value.dtype, sharding
        return [build.compute(operation.name, bind, [], value.shape, value.dtype, sharding, value, key)]
