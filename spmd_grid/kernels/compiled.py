"""Compiles kernels: without the GIL, without inner threads, kept on disk if a cache folder can be written.

A module of this package says ``import numba`` before it imports anything inside numba.  If two threads load numba at
the same time, ``from numba.core import types`` takes the lock of ``numba.core`` and then waits for ``numba``, whose
loading waits for ``numba.core``: Python (3.11) breaks the cycle by handing out a half-initialised module.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numba
from llvmlite.binding import get_host_cpu_name, parse_bitcode
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

from spmd_grid.kernels import machine_code
from spmd_grid.kernels.machine_code import MachineCode, digest_of
from spmd_grid.own_files import folder_of_user, note, problem_of, strange_file

# The result of an intrinsic: its signature, and the function that emits LLVM's instructions (numba has no types).
Intrinsic: TypeAlias = tuple[Any, Callable[..., Any]]

# For functions that only kernels call: without wrappers for Python, which saves a fifth of the compile time.
inner = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
pasted = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always")


class Compiled:
    """The machine code of a ``function``, at an ``address`` by which other code calls it."""

    def __init__(self, function: Callable[..., Any], address: int, keeps: object = None):
        self.function, self.address = function, address
        self._keeps = keeps


def by_address(signature: str, name: str = "") -> Callable[[Callable[..., Any]], Compiled]:
    """Decorate a function to be compiled for exactly ``signature``, at once, or loaded from its file of machine code.

    Local.  ``name`` tells variants of one function apart.  If no cache folder can be written (a read-only home on a
    compute node) the function is compiled in every process.
    """

    def compiled(function: Callable[..., Any]) -> Compiled:
        path = _path_of(function, name)
        address = machine_code.find(path)
        if address:
            return Compiled(function, address)
        args, result = normalize_signature(signature)
        callback: Any = CFunc(function, (args, result), locals={}, options={"nopython": True})
        callback._cache = _Keeper(path)  # in place of numba's own files, which only numba can load
        callback.compile()
        return Compiled(function, callback.address, callback)

    return compiled


def kernel(signature: str, name: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that Python calls, with arrays, to be compiled or loaded from numba's cache.

    Local.  The names of the cache's files contain ``name``, the processor and a digest of this package's sources, for
    two reasons.  numba numbers the entries of one file without a lock, so that two processes which save different
    entries at the same time can mix them up; with one entry per file both write the same.  And numba checks only
    whether the file of the function has changed, not those of the functions it calls.
    """
    return partial(_compiled, signature, name)


class _Keeper:
    """A cache for numba that has nothing, and keeps the machine code of all that is compiled."""

    def __init__(self, path: str):
        self._path = path

    def load_overload(self, signature: object, context: object) -> None:
        return None

    def save_overload(self, signature: object, result: Any) -> None:
        result.library._ensure_finalized()
        module = parse_bitcode(result.library._final_module.as_bitcode())
        needs = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
        entry = module.get_function(result.fndesc.llvm_cfunc_wrapper_name)
        # numba numbers functions within a process, so that in files of several processes different ones may have the
        # same symbol: a process that loads both would use the first for both.  So all but the entry are the file's own.
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration:
                value.linkage = "internal"
        entry.linkage, entry.name = "external", f"spmd_grid.{self._path}"
        object_file = result.library.codegen._tm.emit_object(module)
        machine_code.keep(self._path, MachineCode(entry.name, needs, object_file))


def _path_of(function: Callable[..., Any], name: str) -> str:
    """The module of a function in this package, and its name."""
    module = function.__module__.removeprefix(f"{__package__}.")
    return ".".join(filter(None, (module, function.__name__, name)))


def _compiled(signature: str, name: str, function: Callable[..., Any]) -> Any:
    function.__qualname__ = "_".join(
        filter(None, (function.__name__, name, numba.config.CPU_NAME or get_host_cpu_name(), _SOURCES))
    )
    dispatcher = numba.njit(nogil=True)(function)
    _enable_cache(dispatcher, function.__qualname__)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


def _enable_cache(dispatcher: Any, name: str) -> None:
    """Let numba load a function from its files, if no other user can have written them, and keep it there.

    Else it uses the folder of this user's own.  If there is none, the function is compiled anew.
    """
    if not _problem_of_cache(dispatcher, name):
        return
    own = folder_of_user()
    if own is not None:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(own)
        try:
            is_well = not _problem_of_cache(dispatcher, name)
        finally:
            numba.config.CACHE_DIR = before
        if is_well:
            return
    dispatcher._cache = NullCache()


def _problem_of_cache(dispatcher: Any, name: str) -> str:
    """Enable numba's cache as it is set now; the reason why its files cannot be used, empty if they can."""
    try:
        dispatcher.enable_caching()
        folder = Path(os.path.realpath(dispatcher._cache.cache_path))
        problem = problem_of(folder) or strange_file(folder, name)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return str(error)
    except OSError as error:
        return str(error)
    if problem:
        note(folder, f"numba's files in {folder} are not loaded: {problem}")
    return problem


_SOURCES = digest_of(*sorted(Path(__file__).parent.rglob("*.py")))
