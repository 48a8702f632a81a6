"""Random SPMD programs, as plain data: what all ranks do step by step, and what each of them must then hold.

Arrays are numbered as they appear.  Two kinds of them live side by side: *local* ones, of which every process has its
own, and *sharded* ones, shards of a global array.  `generator` draws the steps, `oracle` plays them on the arrays of
all ranks, and `runner` on those of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = ["PATHS", "Program", "Step"]

PATHS = ["auto", "direct", "mixed", "inline", "message", "read", "staged", "packed", "straight"]


@dataclass
class Step:
    """A step of all ranks: a method of oracle and runner, the arrays it takes and gives, and its arguments."""

    does: str
    on: tuple[int, ...] = ()
    into: int | None = None
    args: dict = field(default_factory=dict)
    gives: list | None = field(default=None, repr=False)  # by process: what it must hold after the step


@dataclass
class Program:
    """Grids as (shape, ranks), the path that is forced, and steps."""

    grids: list
    path: str
    steps: list[Step]

    @property
    def n_ranks(self) -> int:
        return math.prod(self.grids[0][0])

    @property
    def n_bytes(self) -> int:
        """Of all results on all processes."""
        return sum(x.nbytes for step in self.steps for x in step.gives or () if isinstance(x, np.ndarray))

    def __str__(self) -> str:
        lines = [f"{i:4d}  {step}" for i, step in enumerate(self.steps)]
        return "\n".join([f"grids {self.grids}, path {self.path!r}", *lines])

    def _repr_pretty_(self, printer, cycle) -> None:  # as hypothesis shows it
        printer.text(f"\n{self}")
