"""Compiles kernels: without the GIL, without inner threads, cached on disk if a cache folder can be written.

A module of this package says ``import numba`` before it imports anything inside numba.  If two threads load numba at
the same time, ``from numba.core import types`` takes the lock of ``numba.core`` and then waits for ``numba``, whose
loading waits for ``numba.core``: Python (3.11) breaks the cycle by handing out a half-initialised module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numba
from llvmlite.binding import get_host_cpu_name

# The result of an intrinsic: its signature, and the function that emits LLVM's instructions (numba has no types).
Intrinsic: TypeAlias = tuple[Any, Callable[..., Any]]

# For functions that only kernels call: without wrappers for Python, which saves a fifth of the compile time.
inner = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
pasted = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always")


def kernel(signature: str, name: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function to be compiled for exactly ``signature``, at once, or loaded from the cache.

    Local.  ``name`` tells variants of one function apart.  The names of the cache's files contain it, the processor and
    a digest of this package's sources, for two reasons.  numba numbers the entries of one file without a lock, so that
    two processes which save different entries at the same time can mix them up; with one entry per file both write the
    same.  And numba checks only whether the file of the function has changed, not those of the functions it calls.  If
    no cache folder can be written (a read-only home on a compute node) the function is compiled without a cache.
    """
    return partial(_compiled, partial(numba.njit, signature, nogil=True), name)


def by_address(signature: str, name: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Like ``kernel``, for a function that compiled code calls by its ``address``."""
    return partial(_compiled, partial(numba.cfunc, signature, nopython=True), name)


def _compiled(compiler: Callable[..., Any], name: str, function: Callable[..., Any]) -> Any:
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
    """A short digest of the contents of the files.  Local."""
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()


_SOURCES = digest_of(*sorted(Path(__file__).parent.rglob("*.py")))
