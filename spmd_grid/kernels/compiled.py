"""How this room compiles: without the GIL, without inner threads, cached on disk where a disk will have it.

A module of this room says ``import numba`` before it imports anything inside numba.  Where two threads load numba at
the same time, ``from numba.core import types`` takes the lock of ``numba.core`` and then waits for ``numba``, whose
loading waits for ``numba.core``: Python (3.11) breaks the cycle by handing out a half-initialised module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name

# For functions that only kernels call: nothing Python could call is generated, which saves a fifth of the compile time.
inner = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
pasted = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always")


def kernel(signature: str, name: str = "") -> Callable[[Callable], Callable]:
    """Decorate a function to be compiled for exactly ``signature``, at once, or loaded from the cache.

    Local.  ``name`` tells variants of one function apart.  It, the processor and the room's sources go into the names
    of the cache's files.  numba numbers the entries of one file without a lock, so that two processes which save
    different entries at the same time can mix them up; with one entry per file both write the same.  And numba looks
    at the file of the function alone, not at those of the inner functions it is made of.  Where no cache folder can be
    written (a read-only home on a compute node) the function is compiled without one.
    """
    return partial(_compiled, partial(numba.njit, signature, nogil=True), name)


def by_address(signature: str) -> Callable[[Callable], Any]:
    """As ``kernel``, for a function of which compiled code knows the ``address`` alone."""
    return partial(_compiled, partial(numba.cfunc, signature, nopython=True), "")


def _compiled(compiler: Callable, name: str, function: Callable):
    function.__qualname__ = "_".join(
        filter(None, (function.__name__, name, numba.config.CPU_NAME or get_host_cpu_name(), _SOURCES))
    )
    try:
        return compiler(cache=True)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return compiler()(function)


def digest_of(*files: Path) -> str:
    """A short word that changes with the contents of the files.  Local."""
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()


_SOURCES = digest_of(*sorted(Path(__file__).parent.rglob("*.py")))
