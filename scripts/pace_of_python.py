#!/usr/bin/env python3
"""Times Python's code on this machine: the same again and again, and between messages of ranks that share a core.

    python scripts/pace_of_python.py
    scripts/cluster run -n 4 --nodes 2 -- python scripts/pace_of_python.py

The first prints quantiles of the time of a thousand calls of a small function, by tenths of a second: they are far
apart on a machine that has other users.  The second also times an exchange of 8 bytes with the other host, by itself,
after a thousand calls, and after a mixture of library functions: between messages the caches have other code.  Medians
of rounds, of the slowest rank, in microseconds.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import fractions
import inspect
import json
import re
import string
import textwrap
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from mpi4py import MPI

_SPANS, _SPAN_SECONDS = 50, 0.1
_ROUNDS, _CALLS = 40, 60


@dataclasses.dataclass
class _Item:
    number: int
    name: str = "q"
    more: tuple[int, ...] = ()


_ARRAY = np.zeros((4, 5))


def _same(n: int) -> int:
    return n


def _thousand_calls() -> None:
    for n in range(1000):
        _same(n)


def _mixture() -> None:
    item = dataclasses.replace(_Item(1, "abc", (1, 2)), number=3)
    json.loads(json.dumps(dataclasses.asdict(item)))
    _ = fractions.Fraction(3, 7) + fractions.Fraction(2, 9), collections.Counter("abracadabra"), copy.copy(item)
    _ = textwrap.dedent("  ab\n  cd"), string.Template("$a b").substitute(a=3), re.match(r"a(b+)c", "abbbc")
    view = _ARRAY[1:3, ::2]
    _ = np.ascontiguousarray(view), view.reshape(-1), np.zeros(3, np.int64), str(view.dtype)
    _ = sorted({3: 4, 1: 2}.items()), inspect.isfunction(_same), "{:>10} {:.2f}".format("a", 2.5)


def _microseconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls * 1e6


def _span() -> float:
    """The median time of a thousand calls within a tenth of a second."""
    found, end = [], time.perf_counter() + _SPAN_SECONDS
    while time.perf_counter() < end:
        found.append(_microseconds(_thousand_calls, 1))
    return median(found)


def _between_messages(comm: MPI.Intracomm) -> dict[str, float]:
    """The times of an exchange with the other half of the ranks, and of what precedes it in turns."""
    partner, sent, received = (comm.rank + comm.size // 2) % comm.size, np.ones(8, np.uint8), np.empty(8, np.uint8)

    def exchange() -> None:
        comm.Sendrecv(sent, partner, recvbuf=received, source=partner)

    def after(work: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            work()
            exchange()

        return both

    ways = {"an exchange": exchange, "a thousand calls, then it": after(_thousand_calls)}
    ways |= {"the mixture, then it": after(_mixture)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            way()
            comm.Barrier()
            found[name].append(max(comm.allgather(_microseconds(way, _CALLS))))
    return {name: median(times) for name, times in found.items()}


def main() -> None:
    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        spans = sorted(_span() for _ in range(_SPANS))
        alone = {name: median(_microseconds(f, _CALLS) for _ in range(_ROUNDS)) for name, f in _ALONE.items()}
        print("a thousand calls, by tenths of a second:", *(f"{spans[i * (_SPANS - 1) // 4]:.0f}" for i in range(5)))
        print(*(f"alone, {name}: {each:.0f}" for name, each in alone.items()), sep="\n")
    others_wait = comm.Ibarrier()
    while not others_wait.Test():
        time.sleep(1e-2)  # without the core that rank 0 needs
    if comm.size % 2 == 0:
        for name, each in _between_messages(comm).items():
            if comm.rank == 0:
                print(f"{name}: {each:.0f}")


_ALONE: dict[str, Callable[[], None]] = {"a thousand calls": _thousand_calls, "the mixture": _mixture}

if __name__ == "__main__":
    main()
