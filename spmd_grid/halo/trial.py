"""Which way between neighbours is fastest: tried out when a plan is made, since machines and MPI libraries differ.

A time loop rewrites the faces before every update, and so does the trial, within the time it takes: a face that
neighbours have read is dear to write, which staging avoids.
"""

from __future__ import annotations

import pickle
import time

import numpy as np

from spmd_grid.exchange.agreement.facts import swap_texts
from spmd_grid.exchange.channel.channel import MIXED, PACKED, READ, STAGED, STRAIGHT, Channel
from spmd_grid.kernels.protocol import slots as at

__all__ = ["try_ways"]

# What is taken unless another one is clearly faster, then the others.
MEMORY_WAYS, MESSAGE_WAYS = (MIXED, READ, STAGED), (PACKED, STRAIGHT)
_ROUNDS, _IN_A_ROW = 7, 3
_CLEARLY = 0.9


def try_ways(channel: Channel) -> dict[str, float]:
    """Chooses the fastest ways; the seconds per update of those that were tried, by way.

    Collective over the channel's group; the same on all: the seconds are those of the slowest process.
    """
    has = bool(channel.sources or channel.readers), bool(channel.receives or channel.sends)
    everybody = [pickle.loads(text) for text in swap_texts(channel.comm, pickle.dumps(has))]
    seconds = {}
    for ways, needed in zip((MEMORY_WAYS, MESSAGE_WAYS), map(any, zip(*everybody, strict=True)), strict=True):
        if needed:
            found = _seconds_of(channel, ways)
            best = min(found, key=found.get)
            channel.choose(best if found[best] < _CLEARLY * found[ways[0]] else ways[0])
            seconds |= found
    return seconds


def _seconds_of(channel: Channel, ways: tuple[str, ...]) -> dict[str, float]:
    arrays = [_scratch(channel, dtype) for dtype in channel.dtypes]
    faces = [cells.view(array) for array in arrays for pieces in channel.gives.values() for cells in pieces]
    zero = {dtype: np.zeros((), dtype) for dtype in channel.dtypes}
    calls, taken = {}, {way: [] for way in ways}
    for way in ways:
        channel.choose(way)
        calls[way] = channel.call(arrays)
    for _ in range(_ROUNDS):
        for way in ways:
            channel.choose(way)
            for turn in range(1 + _IN_A_ROW):  # the first one finds the caches as the way before has left them
                if turn == 1:
                    start = time.perf_counter()
                for face in faces:
                    face[...] = zero[face.dtype]
                if channel.run(at.UPDATE, calls[way]):
                    channel.raise_ended()
            taken[way].append((time.perf_counter() - start) / _IN_A_ROW)
    mine = [sorted(taken[way])[_ROUNDS // 4] for way in ways]
    everybody = [pickle.loads(text) for text in swap_texts(channel.comm, pickle.dumps(mine))]
    return dict(zip(ways, map(max, zip(*everybody, strict=True)), strict=True))


def _scratch(channel: Channel, dtype: np.dtype) -> np.ndarray:
    """An array like those to come; where the node has no room for it, one that has to be staged."""
    n_bytes = dtype.itemsize * int(np.prod(channel.shape, dtype=np.int64))
    memory = channel.comm.process.arena.allocate(n_bytes)
    if memory is None:
        return np.empty(channel.shape, dtype)
    return np.ndarray(channel.shape, dtype, memory)
