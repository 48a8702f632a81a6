"""The system's clock in compiled code."""

from __future__ import annotations

import time

import numba  # noqa: F401 - imported first: see compiled.py
from numba import types

from spmd_grid.kernels.address import load
from spmd_grid.kernels.compiled import inner

__all__ = ["nanoseconds", "read_clock"]

_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))

_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)  # the clock of time.monotonic(): the former on macOS
_SECOND = 1_000_000_000


@inner
def read_clock(clock: int) -> None:
    """Write the time to two words at an address: seconds and nanoseconds."""
    _clock_gettime(_CLOCK, clock)


@inner
def nanoseconds(clock: int) -> int:
    """The time in two words."""
    return load(clock, 0) * _SECOND + load(clock, 1)
