"""Whole programs on simulated ranks: the file that ``mpirun -n N python app.py`` runs, unchanged.

Every rank executes the file in a ``__main__`` of its own, and what it prints comes in whole lines.  What it imports is
shared, as threads share modules.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from spmd_grid.transport.launch import run_programs

__all__ = ["run_program"]


def run_program(path: str, args: Sequence[str], ranks: int, seed: int | None = None) -> None:
    """Runs the program file on simulated ranks; raises as ``run_spmd`` does."""
    code = compile(Path(path).read_bytes(), path, "exec")
    mains = _Mains(sys.modules["__main__"])

    def execute() -> None:
        module = ModuleType("__main__")
        module.__file__ = path
        module.__builtins__ = builtins
        mains.enter(module)
        try:
            exec(code, module.__dict__)  # noqa: S102 - this is what it is for
        finally:
            lines.flush()

    previous = sys.argv, sys.path, sys.modules["__main__"], sys.stdout
    lines = _Lines(sys.stdout)
    sys.argv = [path, *args]
    sys.path = [str(Path(path).resolve().parent), *sys.path[1:]]
    sys.modules["__main__"] = mains
    sys.stdout = lines
    try:
        run_programs([execute] * ranks, seed)
    finally:
        sys.argv, sys.path, sys.modules["__main__"], sys.stdout = previous


class _Lines:
    """Standard output shared by threads: passes on what each writes in whole lines, or when it flushes."""

    def __init__(self, stream):
        self._stream = stream
        self._local = threading.local()

    def write(self, text: str) -> int:
        whole, newline, rest = (getattr(self._local, "text", "") + text).rpartition("\n")
        self._local.text = rest
        if newline:
            self._stream.write(whole + newline)
        return len(text)

    def flush(self) -> None:
        text, self._local.text = getattr(self._local, "text", ""), ""
        self._stream.write(text)
        self._stream.flush()

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


class _Mains(ModuleType):
    """What ``sys.modules["__main__"]`` is meanwhile: to each rank its own, to other threads the launcher's."""

    def __init__(self, launcher: ModuleType):
        super().__init__("__main__")
        object.__setattr__(self, "_launcher", launcher)
        object.__setattr__(self, "_local", threading.local())

    def enter(self, module: ModuleType) -> None:
        object.__getattribute__(self, "_local").module = module

    def __getattribute__(self, name: str):
        own = object.__getattribute__
        if name == "enter":
            return own(self, name)
        return getattr(getattr(own(self, "_local"), "module", own(self, "_launcher")), name)

    def __setattr__(self, name: str, value) -> None:
        own = object.__getattribute__
        setattr(getattr(own(self, "_local"), "module", own(self, "_launcher")), name, value)
