"""The body of a manual computation as one step of a program, and on the blocks of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits
from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.program.ir import Operation
from spmd_grid.program.lowerings.eager import apart
from spmd_grid.program.manual.abstract import call_body
from spmd_grid.program.manual.terms import Terms
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import Exchange, LocalOperand, LocalValue
from spmd_grid.typing import Shape

__all__ = ["Body", "Manual", "current_body", "run_body"]


@dataclass(frozen=True)
class Body:
    """The manual computation whose body is running on this process.  ``axes``: all that are manual in it."""

    grid: ProcessGrid
    axes: tuple[int, ...]


_CURRENT: ContextVar[Body | None] = ContextVar("manual body", default=None)


def current_body() -> Body | None:
    """The manual computation whose body is running, or None."""
    return _CURRENT.get()


@contextmanager
def _inside(body: Body) -> Iterator[None]:
    token = _CURRENT.set(body)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def run_body(terms: Terms, blocks: Sequence[np.ndarray], grid: ProcessGrid) -> list[np.ndarray]:
    """The blocks that the body returns.  The body is collective over the manual axes, as its operations are.

    It gets blocks that cannot be written to, since others may hold them.
    """
    outer = current_body()
    axes = terms.manual_axes if outer is None else tuple(sorted({*outer.axes, *terms.manual_axes}))
    with _inside(Body(grid, axes)):
        return [np.asarray(each) for each in call_body(terms, [_read_only(each) for each in blocks], grid)]


def _read_only(block: Any) -> np.ndarray:
    view = np.asarray(block).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class Manual:
    """The lowering of a manual computation: blocks are whole along free axes, and even along manual ones."""

    terms: Terms
    exchanges: tuple[Exchange, ...]

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """Operands are moved to their manual shardings; the body computes the blocks of the results."""
        terms = self.terms
        moved: list[LocalOperand] = [
            build.move(x, side.along, f"{side.name} of manual") if isinstance(x, LocalValue) else x
            for x, side in zip(operands, terms.ins, strict=True)
        ]
        results = [
            LocalValue(value, value.shape, value.dtype, side.along)
            for value, side in zip(operation.results, terms.outs, strict=True)
        ]
        expected = [(side.block_shape(value.shape), value.dtype) for value, side in zip(operation.results, terms.outs)]

        def bind(grid: ProcessGrid) -> Callable[..., Any]:
            def run(*blocks: Any) -> Any:
                found = run_body(terms, blocks, grid)
                _check(terms, found, expected)
                found = [apart(each, blocks) for each in found]
                return tuple(found) if len(found) > 1 else found[0]

            return run

        build.call(operation, bind, moved, results, None, self.exchanges)
        return results


def _check(terms: Terms, found: Sequence[np.ndarray], expected: Sequence[tuple[Shape, np.dtype]]) -> None:
    """Refuse blocks of other shapes or dtypes than were found while tracing."""
    for number, (block, (shape, dtype)) in enumerate(zip(found, expected, strict=True)):
        if block.shape != shape:
            raise ShapeError(
                f"manual: result {number} of {terms.name} has shape {block.shape} on this process; while tracing it had"
                f" {shape}"
            )
        if block.dtype != dtype:
            raise DTypeError(
                f"manual: result {number} of {terms.name} has dtype {block.dtype}; while tracing it had {dtype}"
            )
