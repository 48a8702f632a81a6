"""The process in which JAX is measured: the functions of the examples with ``jax.numpy``, under ``jit``."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.bench.common.rows import figures_of
from spmd_grid.bench.common.timing import Alone, measure
from spmd_grid.bench.libraries.own_process import serve
from spmd_grid.bench.programs.cases import ProgramsCase, problem_of
from spmd_grid.bench.programs.libraries import grid_of, in_namespace, is_right

__all__ = ["answer", "main"]

_LOOP = "an empty loop"


def main() -> None:
    serve(answer, lambda: bool(_jax().devices()))


def answer(program: str, size: str, ranks: int, rounds: int, at_most_seconds: float) -> dict[str, Any]:
    """The figures of a row, after a check of its result; or the reason why there are none."""
    case = ProgramsCase(program, size)
    problem = problem_of(case, grid_of(case, ranks))
    try:
        call = _call(problem, ranks)
    except ValueError as error:
        return {"declined": f"it cuts into equal blocks only: {str(error).splitlines()[0][:80]}"}
    if not is_right(call(), problem.function(*problem.arrays)):
        return {"declined": "its result is wrong"}

    def batch(n: int) -> None:
        for _ in range(n):
            call()

    def loop(n: int) -> None:
        for _ in range(n):
            pass

    times = measure(Alone(), {_LOOP: loop, "jit": batch}, rounds, at_most_seconds=at_most_seconds)
    return {"figures": figures_of(times, {"jit": _LOOP})}


def _call(problem: Any, ranks: int) -> Any:
    """A call of the compiled function on arrays that lie on the devices."""
    jax = _jax()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:ranks]), ("devices",))

    def placed(sharding: Any, ndim: int) -> Any:
        cut = [
            "devices" if any(sharding.grid.shape[axis] == ranks for axis in sharding.axes_of(dim)) else None
            for dim in range(ndim)
        ]
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*cut))

    arrays = [jax.device_put(x, placed(s, x.ndim)) for x, s in zip(problem.arrays, problem.in_shardings)]
    ndim = problem.function(*problem.arrays).ndim
    function = jax.jit(in_namespace(problem.function, jax.numpy), out_shardings=placed(problem.out_sharding, ndim))
    return lambda: function(*arrays).block_until_ready()


def _jax() -> Any:
    import jax

    return jax


if __name__ == "__main__":
    main()
