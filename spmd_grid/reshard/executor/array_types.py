"""The dtypes of the arrays that a resharding moves, on which all processes agree before anything moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.collective import Call, Operation

__all__ = ["ArrayTypes", "ReshardOperation"]


class ArrayTypes(NamedTuple):
    """The dtypes of one process's arrays, and whether they are passed as a list (``several``)."""

    several: bool
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of_facts(cls, facts: Facts) -> ArrayTypes:
        """The types that a member states in its header."""
        several, *tokens = facts.out_shape or (False,)
        return cls(bool(several), tuple(map(np.dtype, tokens)))

    def facts(self) -> Facts:
        """The types as they go into a header; in few bytes, so that they fit."""
        plain = [each.metadata is None and np.dtype(each.str) == each for each in self.dtypes]
        tokens = [each.str if is_plain else each for each, is_plain in zip(self.dtypes, plain)]
        return Facts(None, None, (self.several, *tokens))  # type: ignore[arg-type]  # a header carries any tokens

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.dtypes))
        return f"a list of {shown}" if self.several else shown


class ReshardOperation(Operation):
    """The agreement with which a resharding opens: the same request, or plan, and arrays of the same types."""

    name = "reshard"

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], signature: str) -> dict[str, str]:
        return {"plan": signature}

    def resolve(self, call: Call, facts: Sequence[Facts]) -> ArrayTypes:
        """The types that all members state; a member without arrays learns them here."""
        known = [(member, ArrayTypes.of_facts(fact)) for member, fact in enumerate(facts) if fact.out_shape is not None]
        if not known:
            raise DTypeError("reshard: no process has an array, so the dtype is unknown")
        first, types = known[0]
        for member, other in known:
            if other != types:
                raise DTypeError(
                    f"reshard: dtypes differ: {call.label(first)} has {types}, {call.label(member)} has {other}; they"
                    " must be equal"
                )
        return types
