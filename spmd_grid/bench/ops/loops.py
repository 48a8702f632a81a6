"""Contenders of ``bench ops`` inside loops that numba compiles: our plans, and numba-mpi's sum where installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import numba
import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.rows import NUMBA_MPI
from spmd_grid.bench.ops.report import IN_LOOP
from spmd_grid.ops.calls.plan import OperationPlan

__all__ = ["IN_LOOPS", "contenders_in_loops", "rewriting"]

# Operations for which all ranks have an array and a result.
IN_LOOPS = {
    "all_gather axis 0",
    "all_gather last axis",
    "broadcast",
    "all_to_all 0 to 1",
    "all_to_all 1 to 0",
    "shift",
    "reduce_scatter",
    "all_reduce",
}


@numba.njit(nogil=True)
def _rewrite(x: np.ndarray, n: int) -> None:
    for value in range(n):
        x[:] = value


@numba.njit(nogil=True)
def _run(plan: OperationPlan, x: np.ndarray, out: np.ndarray, n: int, rewrites: bool) -> None:
    for value in range(n):
        if rewrites:
            x[:] = value
        plan.run(x, out)


def rewriting(x: np.ndarray, n: int) -> None:
    """Rewrite the source ``n`` times, as the loops of the contenders do."""
    _rewrite(x, n)


def contenders_in_loops(op: str, plan: OperationPlan, x: np.ndarray, out: np.ndarray) -> dict[str, Contender]:
    """Contenders for ``op`` from ``x`` to ``out``, by name.  Collective: compiles the loops."""
    contenders = {
        IN_LOOP: Contender(lambda: _run(plan, x, out, 1, False), x, out, loop=lambda n: _run(plan, x, out, n, True))
    }
    if op == "all_reduce" and find_spec("numba_mpi") is not None:
        loop = _numba_mpi()
        call, batch = (lambda: loop(x, out, 1, False)), (lambda n: loop(x, out, n, True))
        contenders[NUMBA_MPI] = Contender(call, x, out, loop=batch)
    return contenders


def _numba_mpi() -> Callable[[np.ndarray, np.ndarray, int, bool], None]:
    """The loop of numba-mpi."""
    all_reduce = import_module("numba_mpi").allreduce

    @numba.njit(nogil=True)
    def run(x: np.ndarray, out: np.ndarray, n: int, rewrites: bool) -> None:
        for value in range(n):
            if rewrites:
                x[:] = value
            all_reduce(x, out)

    return run
