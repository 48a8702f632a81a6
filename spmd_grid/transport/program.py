"""Whole programs on simulated ranks: the file that ``mpirun -n N python app.py`` runs, unchanged.

Every rank executes the file in a ``__main__`` of its own.  What it imports is shared, as threads share modules.
"""

from __future__ import annotations

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
        module.__builtins__ = __builtins__
        mains.enter(module)
        exec(code, module.__dict__)

    previous = sys.argv, sys.path[0], sys.modules["__main__"]
    sys.argv = [path, *args]
    sys.path[0] = str(Path(path).resolve().parent)
    sys.modules["__main__"] = mains
    try:
        run_programs([execute] * ranks, seed)
    finally:
        sys.argv, sys.path[0], sys.modules["__main__"] = previous


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
