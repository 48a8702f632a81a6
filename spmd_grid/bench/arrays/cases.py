"""The rows of the arrays benchmark: expressions, the blocks that they compute on, and the limits that they keep to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from traceback import extract_tb
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = [
    "CHECKED_SIDE",
    "OPS",
    "RANDOM",
    "ArraysCase",
    "Limit",
    "Expression",
    "all_cases",
    "block_of",
    "problem",
    "quick_cases",
    "raised",
]

RANDOM = "standard_normal"  # draws numbers, which no two libraries draw alike
CHECKED_SIDE = 12  # of the blocks on which every contender is checked
_DOUBLE = 8  # bytes
_PERIOD = 65_537  # values repeat after as many cells


class Limit(NamedTuple):
    """A limit on our time: microseconds above that of ``other``, or at least ``speed`` times the speed of ``other``."""

    other: str  # "numpy" or "by hand"
    most_us: float | None = None
    speed: float | None = None

    def __str__(self) -> str:
        if self.most_us is not None:
            return f"at most {self.most_us:g} us above {self.other}"
        return f"at least {self.speed:.2f}x {self.other}"


class Expression(NamedTuple):
    """An expression ``call(xp, a, b)`` of two arrays and a library's namespace.

    ``a`` is cut along its first dimension on a line of all ranks, ``b`` as ``b_cut`` says: "as a", "columns" (the shape
    of ``a``, cut along the last dimension) or "square" (as many rows as ``a`` has columns).  ``is_view``: libraries
    that give views copy them, as we do.  ``has_halos``: our ``a`` is declared with halos, stale in every call.
    """

    call: Callable[[Any, Any, Any], Any]
    ndim: int = 2
    b_cut: str = "as a"
    is_view: bool = False
    has_halos: bool = False


def _add_to(xp: Any, a: Any, b: Any) -> Any:
    a += b
    return a


def _stencil(xp: Any, a: Any, b: Any) -> Any:
    return 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


OPS = {
    "a + b": Expression(lambda xp, a, b: a + b),
    "a += b": Expression(_add_to),
    "np.exp(a)": Expression(lambda xp, a, b: xp.exp(a)),
    "5-point stencil in slices": Expression(_stencil, has_halos=True),
    "a.sum()": Expression(lambda xp, a, b: a.sum()),
    "a.sum(axis=0)": Expression(lambda xp, a, b: a.sum(axis=0)),
    "a @ b": Expression(lambda xp, a, b: a @ b, b_cut="square"),
    "a.T": Expression(lambda xp, a, b: a.T, is_view=True),
    "a[1:-1]": Expression(lambda xp, a, b: a[1:-1], is_view=True),
    "np.cumsum(a, axis=0)": Expression(lambda xp, a, b: xp.cumsum(a, axis=0)),
    "a + b, b cut by columns": Expression(lambda xp, a, b: a + b, b_cut="columns"),
    "np.sort(a), 1-d": Expression(lambda xp, a, b: xp.sort(a), ndim=1),
    RANDOM: Expression(lambda xp, a, b: xp.standard_normal(a.shape)),
}

_LIMITS = {
    ("a + b", 64): Limit("numpy", most_us=8.0),
    ("a + b", 4096): Limit("numpy", speed=0.97),
    ("5-point stencil in slices", None): Limit("by hand", speed=0.8),
    ("a.sum()", 64): Limit("by hand", most_us=3.0),
    (RANDOM, None): Limit("numpy", speed=1 / 1.2),
}


@dataclass(frozen=True)
class ArraysCase:
    """An expression on blocks of doubles, ``side`` cells along each dimension per rank."""

    op: str
    side: int

    @property
    def name(self) -> str:
        blocks = f"blocks of {self.side:,}" if OPS[self.op].ndim == 1 else f"{self.side}^2 blocks"
        return f"{self.op}, {blocks}"

    @property
    def family(self) -> str:
        """The name of the rows that differ only in size."""
        return self.op

    @property
    def n_bytes(self) -> int:
        """Bytes of each rank's block."""
        return _DOUBLE * self.side ** OPS[self.op].ndim

    @property
    def limit(self) -> Limit | None:
        return _LIMITS.get((self.op, self.side), _LIMITS.get((self.op, None)))

    def layouts(self, grid: Grid) -> tuple[Layout, Layout]:
        """The layouts of both operands on a line of devices."""
        op = OPS[self.op]
        rows = Sharding(grid, [[0]])
        shape: Shape = (self.side * grid.size, self.side)[: op.ndim]
        if op.b_cut == "columns":
            return Layout(rows, shape), Layout(Sharding(grid, [[], [0]]), shape)
        return Layout(rows, shape), Layout(rows, (self.side, self.side) if op.b_cut == "square" else shape)

    def whole(self, ranks: int) -> tuple[np.ndarray, np.ndarray]:
        """Both operands as global arrays."""
        a, b = (block_of(layout.domain_box, n) for n, layout in enumerate(self.layouts(Grid((ranks,)))))
        return a, b


def all_cases() -> list[ArraysCase]:
    sides = {
        "a + b": (64, 512, 4096),
        "a += b": (64, 4096),
        "5-point stencil in slices": (64, 512, 4096),
        "a.sum()": (64, 4096),
        "np.sort(a), 1-d": (1 << 14, 1 << 20),
    }
    return [ArraysCase(op, side) for op in OPS for side in sides.get(op, (64, 1024))]


def quick_cases() -> list[ArraysCase]:
    """The rows of the smallest blocks."""
    return [ArraysCase(op, 64 if OPS[op].ndim > 1 else 1 << 14) for op in OPS]


def problem(case: ArraysCase, ranks: int, found: np.ndarray) -> str:
    """A complaint about a library's global result; empty if it is numpy's."""
    if case.op == RANDOM:
        return ""
    expected = np.asarray(OPS[case.op].call(np, *case.whole(ranks)))
    if found.shape == expected.shape and np.allclose(found, expected):
        return ""
    return "its result is wrong"


def raised(error: Exception) -> str:
    """The reason why a library is skipped in a row where it raises an error."""
    text = next(iter(str(error).splitlines()), "")
    if not text:  # as of an assertion without a message
        text = next((f"at {frame.line}" for frame in reversed(extract_tb(error.__traceback__))), "")
    return f"it raises {type(error).__name__}: {text[:80]}"


def block_of(box: Box, number: int) -> np.ndarray:
    """The cells of ``box`` of operand ``number``: values of [0, 1) in no order, that follow from the global index."""
    cells = np.full(box.shape, 17 * number, np.int64)
    for dim, (start, stop) in enumerate(zip(box.starts, box.stops, strict=True)):
        index = (7_919, 104_729)[dim] * np.arange(start, stop)
        cells += index.reshape(-1, *[1] * (box.ndim - dim - 1))
    return cells % _PERIOD / _PERIOD
