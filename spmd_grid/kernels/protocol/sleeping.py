"""The sleep of processes that share their cores, until a word that they wait for is stored, and their wake-up.

Beside such a word stands the number of processes that sleep, or are about to.  Who stores the word asks the system to
wake them only if there are some.  Each side writes, and then looks at what the other one has written, with a fence
between, which on the side of the sleeper is the system's own.  So at least one of them sees the other, and no wake-up
is lost.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import add, fence, load, load_acquire, sleep_on, wake_all
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at

__all__ = ["sleep_until", "wake"]


@inner
def sleep_until(address: int, value: int, longest: int) -> None:
    """Sleep for some time, until the word at ``address`` changes, unless it is at least ``value``.

    ``longest``: address of the most seconds and nanoseconds.
    """
    sleepers = address + at.SLEEPERS
    add(sleepers, 1)
    seen = load_acquire(address)
    if seen < value:
        sleep_on(address, seen, longest)
    add(sleepers, -1)


@inner
def wake(state: int, address: int) -> None:
    """Wake the processes that sleep until the word at ``address`` changes, after it was stored."""
    if load(state, at.SLEEPS):
        fence()
        if load_acquire(address + at.SLEEPERS):
            wake_all(address)
