"""The trial of the ways between neighbours when a plan is made, since machines and MPI libraries differ.

A time loop rewrites the faces before every update, so the trial does that too, and times it: a face that neighbours
have read is slow to write, which staging avoids.  It knows neither what else the program does nor where its arrays lie.
So where it finds both ways about as quick, updates try them too, now and then (kernels/protocol/course.py).
"""

from __future__ import annotations

import json
import time
from math import prod

import numpy as np

from spmd_grid.exchange.agreement.learn_facts import swap_texts
from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.exchange.channel.channel import BY_SIZE, Channel
from spmd_grid.exchange.paths import PACKED, READ, STAGED, STRAIGHT
from spmd_grid.kernels.protocol import slots as at

__all__ = ["try_ways"]

# The first way of each is used unless another one is clearly faster.
MEMORY_WAYS, MESSAGE_WAYS = (BY_SIZE, READ, STAGED), (PACKED, STRAIGHT)
_ROUNDS, _IN_A_ROW = 7, 3
_MOST_BYTES = 7 << 20  # that a way carries in the timed rounds: larger faces have fewer rounds, huge ones one
_CLEARLY = 0.9
_CLOSE = 2.0  # reading that takes at most this many times as long as staging may be quicker in a program


def try_ways(channel: Channel) -> dict[str, float]:
    """Chooses the fastest ways; seconds per update of the ways that were tried.

    Collective over the channel's group.  The result is the same on all members: the time of the slowest process.
    """
    uses = bool(channel.sources or channel.readers), bool(channel.receives or channel.sends), channel.reads
    cells = sum(prod(piece.shape) for pieces in channel.gives.values() for piece in pieces)
    given = cells * sum(dtype.itemsize for dtype in channel.dtypes)
    used_by = [json.loads(text) for text in swap_texts(channel.comm, json.dumps((*uses, given)).encode())]
    in_memory, by_messages, reads = (any(used) for used in list(zip(*used_by, strict=True))[:3])
    rounds = min(_ROUNDS, max(1, _MOST_BYTES // max(1, *[used[3] for used in used_by])))
    seconds: dict[str, float] = {}
    if in_memory:
        seconds |= _seconds_of(channel, MEMORY_WAYS, rounds)
        _choose_in_memory(channel, seconds, reads)
    if by_messages:
        seconds |= _seconds_of(channel, MESSAGE_WAYS, rounds)
        channel.choose(_quickest(seconds, MESSAGE_WAYS))
    return seconds


def _quickest(seconds: dict[str, float], ways: tuple[str, ...]) -> str:
    best = min(ways, key=seconds.__getitem__)
    return best if seconds[best] < _CLEARLY * seconds[ways[0]] else ways[0]


def _choose_in_memory(channel: Channel, seconds: dict[str, float], reads_by_size: bool) -> None:
    """Local, alike on all members.  ``reads_by_size``: whether any of them reads an array in place by size."""
    best = _quickest(seconds, MEMORY_WAYS)
    reading = _quickest(seconds, (BY_SIZE, READ)) if reads_by_size else READ
    stages = best == STAGED or (best == BY_SIZE and not reads_by_size)
    tries = seconds[reading] < _CLOSE * seconds[STAGED]
    channel.choose(reading if tries else best)
    channel.stage_all(stages and tries, tries)


def _seconds_of(channel: Channel, ways: tuple[str, ...], rounds: int) -> dict[str, float]:
    """Seconds per update by each of ``ways``, of the slowest process.  Collective over the channel's group."""
    # The first runs are not timed: one finds the caches as the previous way has left them, and those of the only round
    # touch fresh memory.
    untimed, timed = (1, _IN_A_ROW) if rounds > 1 else (2, 1)
    arrays = [_scratch(channel, dtype) for dtype in channel.dtypes]
    faces = [cells.view(array) for array in arrays for pieces in channel.gives.values() for cells in pieces]
    zero = {dtype: np.zeros((), dtype) for dtype in channel.dtypes}
    calls: dict[str, ChannelCall] = {}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways:
        channel.choose(way)
        calls[way] = channel.call(arrays)
    for _ in range(rounds):
        for way in ways:
            channel.choose(way)
            for turn in range(untimed + timed):
                if turn == untimed:
                    start = time.perf_counter()
                for face in faces:
                    face[...] = zero[face.dtype]
                if channel.run(at.UPDATE, calls[way]):
                    channel.raise_ended()
            taken[way].append((time.perf_counter() - start) / timed)
    mine = [sorted(taken[way])[rounds // 4] for way in ways]
    by_member = [json.loads(text) for text in swap_texts(channel.comm, json.dumps(mine).encode())]
    return dict(zip(ways, map(max, zip(*by_member, strict=True)), strict=True))


def _scratch(channel: Channel, dtype: np.dtype) -> np.ndarray:
    """An array like the fields, in the arena if that has space; else one that has to be staged."""
    n_bytes = dtype.itemsize * int(np.prod(channel.shape, dtype=np.int64))
    memory = channel.comm.process.arena.allocate(n_bytes)
    if memory is None:
        return np.empty(channel.shape, dtype)
    return np.ndarray(channel.shape, dtype, memory)
