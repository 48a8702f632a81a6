"""The process in which JAX is measured: reads rows and writes their figures, each as a line of JSON.

`jax` runs it as ``python -m spmd_grid.bench.reshard.libraries.jax_process``, with the number of CPU devices set in the
environment.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from spmd_grid.bench.common.rows import figures_of
from spmd_grid.bench.common.timing import Alone, Batch, measure
from spmd_grid.bench.libraries.own_process import serve

__all__ = ["answer", "main"]

_FILLING = "filling"
Function = Callable[[Any], Any]  # of JAX's arrays


def main() -> None:
    serve(answer, lambda: bool(_devices()))


def answer(shape: list[int], before: int, after: int, rounds: int, at_most_seconds: float) -> dict[str, Any]:
    """The figures of every variant, each checked once; or the reason why there are none."""
    n = len(_devices())
    uneven = [extent for extent in (shape[before], shape[after]) if extent % n]
    if uneven:
        return {"declined": f"it cuts into equal blocks only, and {n} devices do not divide {uneven[0]}"}
    fill, variants, put = _functions(tuple(shape), before, after)
    whole = np.arange(float(prod(shape))).reshape(shape)
    source = put(whole)
    for name, reshard in variants.items():
        if not np.array_equal(np.asarray(reshard(source)), whole):
            raise RuntimeError(f"{name} gives a wrong result")
    batches = {_FILLING: _batch(fill, None)} | {name: _batch(fill, reshard) for name, reshard in variants.items()}
    times = measure(Alone(), batches, rounds, at_most_seconds=at_most_seconds)
    return {"figures": figures_of(times, dict.fromkeys(variants, _FILLING))}


def _batch(fill: Function, reshard: Function | None) -> Batch:
    """Calls with a new source each, as for all other contenders; only the new sources for None."""

    def batch(n: int) -> None:
        for value in range(n):
            source = fill(float(value)).block_until_ready()
            if reshard is not None:
                reshard(source).block_until_ready()

    return batch


def _devices() -> list[Any]:
    import jax

    return jax.devices()


def _functions(shape: tuple[int, ...], before: int, after: int) -> tuple[Function, dict[str, Function], Function]:
    """Functions that make a source of one value, that reshard a source (by name), and that distribute an array."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(_devices()), ("devices",))
    cut = [
        PartitionSpec(*("devices" if dim == each else None for dim in range(len(shape)))) for each in (before, after)
    ]
    source, target = (NamedSharding(mesh, spec) for spec in cut)

    def exchange(block: Any) -> Any:
        return jax.lax.all_to_all(block, "devices", split_axis=after, concat_axis=before, tiled=True)

    variants = {
        "device_put": lambda array: jax.device_put(array, target),
        "shard_map": jax.jit(jax.shard_map(exchange, mesh=mesh, in_specs=cut[0], out_specs=cut[1])),
        "jit": jax.jit(lambda array: array, out_shardings=target),
    }
    fill = jax.jit(lambda value: jax.numpy.full(shape, value), out_shardings=source)
    return fill, variants, lambda array: jax.device_put(array, source)


if __name__ == "__main__":
    main()
