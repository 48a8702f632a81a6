"""The process in which dask.array is measured: a chunk for each rank, on as many threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.bench.arrays.cases import CHECKED_SIDE, OPS, RANDOM, ArraysCase, problem, raised
from spmd_grid.bench.common.rows import figures_of
from spmd_grid.bench.common.timing import Alone, measure
from spmd_grid.bench.libraries.own_process import serve

__all__ = ["answer", "main"]

_LOOP = "an empty loop"


def main() -> None:
    serve(answer, lambda: _dask() is not None)


def answer(op: str, side: int, ranks: int, rounds: int, at_most_seconds: float) -> dict[str, Any]:
    """The figures of a row, after a check of its result; or the reason why there are none."""
    dask, array = _dask(), _array()
    if OPS[op].ndim == 1:
        return {"declined": "it has no sort"}
    with dask.config.set(scheduler="threads", num_workers=ranks):
        small = ArraysCase(op, CHECKED_SIDE)
        try:
            reason = problem(small, ranks, np.asarray(_expression(array, small, ranks)().compute()))
        except Exception as error:
            reason = raised(error)
        if reason:
            return {"declined": reason}
        call = _expression(array, ArraysCase(op, side), ranks)

        def batch(n: int) -> None:
            for _ in range(n):
                call()

        def loop(n: int) -> None:
            for _ in range(n):
                pass

        times = measure(Alone(), {_LOOP: loop, op: batch}, rounds, at_most_seconds=at_most_seconds)
    return {"figures": figures_of(times, {op: _LOOP})}


def _expression(array: Any, case: ArraysCase, ranks: int) -> Callable[[], Any]:
    """A call that evaluates the expression, whose chunks then lie in memory."""
    op = OPS[case.op]
    if case.op == RANDOM:
        generator, shape = array.random.default_rng(1), (case.side * ranks, case.side)
        return lambda: generator.standard_normal(shape, chunks=(case.side, -1)).persist()
    chunks = (case.side, -1), (-1, -(-case.side // ranks)) if op.b_cut == "columns" else (-(-case.side // ranks), -1)
    if op.b_cut == "as a":
        chunks = chunks[0], chunks[0]
    a, b = (array.from_array(whole, each).persist() for whole, each in zip(case.whole(ranks), chunks))
    if op.is_view:
        return lambda: op.call(array, a, b).map_blocks(np.copy).persist()
    return lambda: op.call(array, a, b).persist()


def _dask() -> Any:
    import dask

    return dask


def _array() -> Any:
    import dask.array

    return dask.array


if __name__ == "__main__":
    main()
