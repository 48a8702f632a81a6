"""Compiled functions of tests, kept on disk: the first process that needs one compiles it for all others.

The suite is hundreds of processes, and to compile a loop takes each of them seconds.
"""

import fcntl
import time
from pathlib import Path

import numba
from numba.core.caching import IndexDataCacheFile

from spmd_grid import kernels
from spmd_grid.kernels.machine_code import digest_of

__all__ = ["compiled", "late_updates_holding", "updates_free", "updates_holding"]

_KERNELS = digest_of(*sorted(Path(kernels.__file__).parent.rglob("*.py")))


class _GuardedFile(IndexDataCacheFile):
    """The entries of one function, by signature, which numba numbers without a lock: two processes that save different
    ones at a time would mix them up."""

    def save(self, key, data):
        with open(f"{self._index_path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            super().save(key, data)


def compiled(**options):
    """As ``numba.njit``, for a function of a module; its options and our kernels' sources are part of its name."""

    def decorate(function):
        # numba looks entries up by signature, whatever the options, and does not notice what changes elsewhere.
        function.__qualname__ = "_".join([function.__name__, *sorted(options), _KERNELS])
        dispatcher = numba.njit(cache=True, **options)(function)
        cache = dispatcher._cache
        stamp = cache._impl.locator.get_source_stamp()
        cache._cache_file = _GuardedFile(cache.cache_path, cache._impl.filename_base, stamp)
        return dispatcher

    return decorate


def _updates(plan, u, steps):
    for _ in range(steps):
        plan.update(u)


updates_free = compiled(nogil=True)(_updates)
updates_holding = compiled()(_updates)  # keeps the interpreter's lock


@compiled()
def late_updates_holding(plan, u, steps, seconds):
    """Sleeps before the middle one."""
    for step in range(steps):
        if step == steps // 2:
            with numba.objmode():
                time.sleep(seconds)
        plan.update(u)
