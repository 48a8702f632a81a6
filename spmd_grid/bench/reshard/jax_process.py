"""The process in which JAX is measured: reads a row as a line of JSON, answers with its figures in another.

Run as ``python -m spmd_grid.bench.reshard.jax_process`` by `jax`, on the number of CPU devices that the environment
sets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from math import prod

import numpy as np

from spmd_grid.bench.common.rows import figures_of
from spmd_grid.bench.common.timing import Alone, Batch, measure

__all__ = ["answer", "main"]

_FILLING = "filling"


def main() -> None:
    """Answers until the questions end; what others print goes to stderr."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        try:
            reply = answer(**question) if question else {"ready": bool(_devices())}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


def answer(shape: list[int], before: int, after: int, rounds: int, at_most_seconds: float) -> dict:
    """The figures of every way, each checked once; or why there are none."""
    n = len(_devices())
    uneven = [extent for extent in (shape[before], shape[after]) if extent % n]
    if uneven:
        return {"declined": f"it cuts into equal blocks only, and {n} devices do not divide {uneven[0]}"}
    fill, ways, place = _ways(tuple(shape), before, after)
    whole = np.arange(float(prod(shape))).reshape(shape)
    source = place(whole)
    for name, way in ways.items():
        if not np.array_equal(np.asarray(way(source)), whole):
            raise RuntimeError(f"{name} gets it wrong")
    batches = {_FILLING: _batch(fill, lambda source: None)}
    batches |= {
        name: _batch(fill, lambda source, way=way: way(source).block_until_ready()) for name, way in ways.items()
    }
    times = measure(Alone(), batches, rounds, at_most_seconds=at_most_seconds)
    return {"figures": figures_of(times, dict.fromkeys(ways, _FILLING))}


def _batch(fill: Callable, call: Callable) -> Batch:
    """A new source before every call, as all others get one."""

    def batch(n: int) -> None:
        for value in range(n):
            call(fill(float(value)).block_until_ready())

    return batch


def _devices() -> list:
    import jax

    return jax.devices()


def _ways(shape: tuple[int, ...], before: int, after: int) -> tuple[Callable, dict[str, Callable], Callable]:
    """How to make a source of one value, the ways to reshard one by name, and how to place a given array."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(_devices()), ("devices",))
    cut = [
        PartitionSpec(*("devices" if dim == each else None for dim in range(len(shape)))) for each in (before, after)
    ]
    source, target = (NamedSharding(mesh, spec) for spec in cut)

    def exchange(block):
        return jax.lax.all_to_all(block, "devices", split_axis=after, concat_axis=before, tiled=True)

    ways = {
        "device_put": lambda array: jax.device_put(array, target),
        "shard_map": jax.jit(jax.shard_map(exchange, mesh=mesh, in_specs=cut[0], out_specs=cut[1])),
        "jit": jax.jit(lambda array: array, out_shardings=target),
    }
    fill = jax.jit(lambda value: jax.numpy.full(shape, value), out_shardings=source)
    return fill, ways, lambda array: jax.device_put(array, source)


if __name__ == "__main__":
    main()
