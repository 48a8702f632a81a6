"""The dtypes of the arrays that a resharding moves, as processes state them in their headers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spmd_grid.exchange.agreement.header import Facts

__all__ = ["ArrayTypes"]


class ArrayTypes(NamedTuple):
    """The dtypes of one process's arrays, and whether they are passed as a list (``several``)."""

    several: bool
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of_facts(cls, facts: Facts) -> ArrayTypes:
        """The types that a member states in its header."""
        several, *tokens = facts.out_shape or (False,)
        return cls(bool(several), tuple([np.dtype(token) for token in tokens]))  # type: ignore[call-overload]  # see `facts`

    def facts(self) -> Facts:
        """The types as they go into a header; in few bytes, so that they fit."""
        plain = [each.metadata is None and np.dtype(each.str) == each for each in self.dtypes]
        tokens = [each.str if is_plain else each for each, is_plain in zip(self.dtypes, plain)]
        return Facts(None, None, (self.several, *tokens))  # type: ignore[arg-type]  # a header carries any tokens

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.dtypes))
        return f"a list of {shown}" if self.several else shown
