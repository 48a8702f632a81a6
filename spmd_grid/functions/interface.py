"""The sharding interface of one call of an array function: its iterators, and where each runs in operands and results.

The terms are those of the RFC on sharding in MLIR.  An *iterator* is one loop of the function.  It is *parallel* if
each of its steps gives another part of the result, a *reduction* if its steps are combined, and *whole* if it cannot be
cut.  An *indexing map* names, for every dimension of an operand or a result, the iterator that runs along it::

    c = a @ b       iterators i (parallel), k (reduction by sum), j (parallel)
                    a: (i, k)   b: (k, j)   c: (i, j)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.typing import Shape

__all__ = ["HELD", "PARALLEL", "WHOLE", "Application", "Halos", "Interface", "Iterator", "broadcast_maps", "shape_of"]

PARALLEL = "parallel"
WHOLE = "whole"
HELD = "held"  # cut as its arrays are, of which each device holds one step, and by nothing else

IndexingMap = tuple[int | None, ...]
Halos = tuple[tuple[int, int], ...]


class Iterator(NamedTuple):
    """One loop of a function: its number of steps, and ``PARALLEL``, ``WHOLE``, ``HELD`` or a reduction kind's name."""

    extent: int
    kind: str = PARALLEL

    @property
    def is_reduction(self) -> bool:
        """Whether its steps are combined."""
        return self.kind not in (PARALLEL, WHOLE, HELD)


@dataclass(frozen=True)
class Interface:
    """The iterators of one call, and an indexing map per operand and per result.

    None in a map stands for a dimension of extent 1 along which no iterator runs: it is repeated where others are
    longer (broadcasting), or kept by a reduction.

    ``halos``: for every operand, or for none, per dimension (low, high): step k reads cells k - low to k + high.  Cells
    outside the array are 0.
    """

    iterators: tuple[Iterator, ...]
    operands: tuple[IndexingMap, ...]
    results: tuple[IndexingMap, ...]
    halos: tuple[Halos, ...] = ()

    @property
    def gives_numbers(self) -> bool:
        """Whether the steps of every iterator are combined, and there are any."""
        return bool(self.iterators) and all([iterator.is_reduction for iterator in self.iterators])

    def result_shape(self, number: int = 0) -> Shape:
        """The global shape of a result."""
        return self._extents(self.results[number])

    def steps_of(self, number: int) -> Shape:
        """The steps along each dimension of an operand: its shape, where they read one cell each."""
        return self._extents(self.operands[number])

    def _extents(self, indexing_map: IndexingMap) -> Shape:
        return tuple([1 if i is None else self.iterators[i].extent for i in indexing_map])


@dataclass(frozen=True)
class Application:
    """One call of a function: its operands, its interface, and what to compute on blocks.

    ``local(*blocks)`` computes a block of every result (a tuple where there are several) from a block of every operand.
    Where iterators are reductions its result is combined, by ``kind``, over the devices that hold the other steps;
    ``finish`` turns what was combined into the result.  Both are kept for later calls with other operands of the same
    layouts and dtypes, so they must not refer to the operands.  ``merges``: whether values of the first operand that
    are partial by ``kind`` may be combined after ``local``, as part of its reduction.  ``located``: whether ``local``
    is called with the numbers of the first steps of the iterators in its blocks, before the blocks.  ``may_fail``:
    whether ``local`` may raise by the values of cells, so that processes must agree on its outcome.  ``way``: of a
    function whose result is a view of its first operand, see `spmd_grid.functions.ways`.
    """

    name: str
    operands: tuple[Any, ...]
    interface: Interface
    local: Callable[..., Any]
    kind: str = ""
    finish: Callable[[np.ndarray], Any] | None = None
    merges: bool = False
    located: bool = False
    may_fail: bool = False
    way: Any = None


def shape_of(operand: Any) -> Shape:
    """The global shape of an operand: of an array its own, of a plain number ()."""
    return getattr(operand, "shape", ())


def broadcast_maps(op: str, shapes: Sequence[Shape]) -> tuple[Shape, tuple[IndexingMap, ...]]:
    """The shape to which ``shapes`` broadcast, and the indexing map of each.  Raises ShapeError.

    >>> broadcast_maps("add", [(4, 1), (3,)])
    ((4, 3), ((0, None), (1,)))
    """
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        shown = ", ".join(map(str, shapes))
        raise ShapeError(f"{op}: operands have shapes {shown}; they must broadcast to one shape") from None
    maps = []
    for each in shapes:
        first = len(shape) - len(each)
        maps.append(tuple([first + d if n == shape[first + d] else None for d, n in enumerate(each)]))
    return shape, tuple(maps)
