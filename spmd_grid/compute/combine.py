"""The last step of every reduction: the processes' results are combined, with equal bits on every process."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_reduce import AllReduce
from spmd_grid.ops.reduction.reducing import Reducing

__all__ = ["combine"]


class Combine(Reducing):
    """`all_reduce` of the processes' results, under the name of the reduction that it ends.

    So a mismatch error names the reductions, and the dtypes and layouts of the arrays, that processes called it with.
    """

    resolve = AllReduce.resolve

    def __init__(self, name: str):
        self.name = name

    def prepare(
        self,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        reduction: str,
        dtypes: tuple[np.dtype, ...],
        layout: Layout,
        reproducible: bool,
    ) -> dict[str, Any]:
        compared = {"dtypes": dtypes, "reproducible": reproducible, "layout": layout}
        return self.prepare_reduction(reduction, None) | compared


_combine_of = cache(Combine)


def combine(
    name: str,
    found: Any,
    grid: ProcessGrid,
    axes: tuple[int, ...],
    kind: str,
    dtypes: tuple[np.dtype, ...],
    layout: Layout,
    reproducible: bool = False,
) -> np.ndarray:
    """What processes ``found`` by the reduction ``name``, combined by ``kind`` over ``axes``.

    Collective over ``axes``; the gate has been passed.  The element types of the arrays and the ``layout`` of the first
    are compared.
    """
    arguments = kind, dtypes, layout, reproducible
    return _combine_of(name).run_in_gate(np.asarray(found), grid, axes, arguments)
