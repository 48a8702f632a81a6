"""Machine code of kernels in files of a cache folder, loaded without numba.

numba takes about half a second of processor time to import and to load its own cache, several times as long as all
else that a process does before its first operation.  So the object file of a compiled kernel is kept here, and LLVM
alone links it into later processes.  A file's name tells the processor and everything that the code was made from: the
sources of this package, numba, llvmlite and Python.  A file that is damaged, was written for something else, or may
have been written by another user (`own_files`) is ignored: then the kernel is compiled.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from spmd_grid.own_files import Stranger, folder_of_user, make_folder, note, problem_of, read_own, write_own

__all__ = ["MachineCode", "digest_of", "find", "keep", "kept_in", "refused"]

_DIGEST_BYTES = 16
_MOST_BYTES = 64 << 20  # of a file
_lock = Lock()


class MachineCode(NamedTuple):
    """An object file, the symbol of the function in it, and the symbols that it needs from elsewhere."""

    symbol: str
    needs: list[str]
    object_file: bytes


def find(name: str) -> int:
    """The address of a kernel whose machine code has been kept; 0 if there is none for this processor and package.

    Local.  ``name``: module and function, such as "protocol.meeting.meet".
    """
    for folder, _ in _folders():
        found = _read(folder, _file_name(name))
        if found:
            return _link(found)
    return 0


def kept_in(name: str) -> Path | None:
    """The folder that holds the machine code of a kernel; None if it is not kept.  Local."""
    return next((folder for folder, _ in _folders() if _read(folder, _file_name(name))), None)


def keep(name: str, code: MachineCode) -> bool:
    """Writes the machine code of a kernel; whether a folder could be written.  Local."""
    head = json.dumps([code.symbol, code.needs]).encode() + b"\n"
    content = _digest(head + code.object_file) + head + code.object_file
    for folder, mode in _folders():
        with suppress(OSError):  # not writable, or full
            make_folder(folder, mode)
            write_own(folder, _file_name(name), content)
            return True
    return False


def digest_of(*files: Path) -> str:
    """A short digest of the contents of the files.  Local."""
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _read(folder: Path, name: str) -> MachineCode | None:
    """The machine code in a file, if it is there, whole, and no other user's."""
    try:
        content = read_own(folder, name, _MOST_BYTES)
    except Stranger as error:
        note(folder, f"compiled kernels in {folder} are not all loaded: {error}")
        return None
    except OSError:
        return None
    digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if _digest(rest) != digest:
        return None
    head, _, object_file = rest.partition(b"\n")
    with suppress(ValueError, TypeError, RecursionError):
        symbol, needs = json.loads(head)
        if type(symbol) is str and type(needs) is list and all(type(each) is str for each in needs):
            return MachineCode(symbol, needs, object_file)
    return None


# -- files -------------------------------------------------------------------------------------------------------


@cache
def refused() -> str:
    """The reason why others may write to the folder that would be used first, so that it is not.  Local."""
    return problem_of(_first_folder())


@cache
def _first_folder() -> Path:
    given = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(given, "spmd_grid") if given else Path(__file__).parent / "__pycache__"
    return Path(os.path.realpath(folder))


@cache
def _folders() -> tuple[tuple[Path, int], ...]:
    """The folders that may hold the files, and their modes if they are made; the first that can be written is written.

    In place of one to which others may write, the folder of this user's own is taken.
    """
    own = folder_of_user()
    if refused():
        instead = "compiled anew in every process" if own is None else f"kept in {own}"
        first = _first_folder()
        note(first, f"compiled kernels in {first} are not loaded: {refused()}; they are {instead}")
    found = [] if refused() else [(_first_folder(), 0o755)]
    if own is not None and (refused() or not os.environ.get("NUMBA_CACHE_DIR")):
        found.append((own, 0o700))
    return tuple(found)


@cache
def _origin() -> str:
    """The processor, and a digest of all that machine code is made from."""
    import llvmlite
    from llvmlite import binding

    spec = find_spec("numba")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    made_from = digest_of(*sources, *(path for path in [folder / "_version.py"] if path.exists()))
    features = binding.get_host_cpu_features().flatten()
    rest = f"{made_from} {llvmlite.__version__} {sys.implementation.cache_tag} {sys.platform} {features}"
    processor = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    return f"{processor}-{blake2b(rest.encode(), digest_size=8).hexdigest()}"


def _file_name(name: str) -> str:
    return f"{name}-{_origin()}.code"


# -- linking -----------------------------------------------------------------------------------------------------


@cache
def _engine() -> Any:
    """LLVM's linker of object files into this process."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    for symbol in _OF_NUMBA:
        if not binding.address_of_symbol(symbol):
            binding.add_symbol(symbol, ctypes.cast(_raised, ctypes.c_void_p).value)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _link(code: MachineCode) -> int:
    """The address of the function; 0 if this process lacks something that it needs: LLVM would end the process."""
    from llvmlite import binding

    with _lock:
        engine = _engine()
        if not all(map(binding.address_of_symbol, code.needs)):
            return 0
        engine.add_object_file(binding.ObjectFileRef.from_data(code.object_file))
        engine.finalize_object()
        return int(engine.get_function_address(code.symbol))


# Functions of numba's that compiled code calls where it raises an exception, or gives back an array that it made.
# Kernels raise none: a caller in compiled code could not tell, and would go on with wrong data.  They make none either.
_OF_NUMBA = (
    "NRT_Free",
    "NRT_MemInfo_call_dtor",
    "numba_do_raise",
    "numba_gil_ensure",
    "numba_gil_release",
    "numba_runtime_build_excinfo_struct",
    "numba_unpickle",
)


@ctypes.CFUNCTYPE(None)
def _raised() -> None:
    sys.stderr.write("spmd_grid: a compiled kernel raised an exception or made an array, which none may; it ends\n")
    sys.stderr.flush()
    os.abort()
