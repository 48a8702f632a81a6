"""Whole programs on simulated ranks: the file that ``mpirun -n N python app.py`` runs, unchanged.

Every rank executes the file in a ``__main__`` of its own, and what it prints comes in whole lines.  What it imports is
shared, as threads share modules.  ``breakpoint()`` stops the rank that comes to it, while the others run on.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from spmd_grid.transport.launch import current_world, run_programs
from spmd_grid.transport.simulated.output import Kept, Lines, Shown
from spmd_grid.transport.simulated.random_states import RandomStates
from spmd_grid.transport.simulated.scheduler import Scheduler

__all__ = ["run_program"]


def run_program(
    path: str,
    args: Sequence[str],
    ranks: int,
    seed: int | None = None,
    *,
    labelled: bool = False,
    kept: tuple[Kept, Kept] | None = None,
) -> None:
    """Runs the program file on simulated ranks; raises as ``run_spmd`` does.

    With a seed, ``random`` and ``numpy.random`` give the same numbers in every run, others on each rank, and messages
    may keep their senders waiting.  ``labelled``: every line begins with its rank.  ``kept``: takes what is printed on
    standard output and standard error, which then is not shown; breakpoints are passed by.
    """
    code = compile(Path(path).read_bytes(), path, "exec")
    mains = _Mains(sys.modules["__main__"])
    crew = _Ranks()
    out, err = kept or (Shown(sys.stdout, crew.label if labelled else None), Shown(sys.stderr, crew.label))
    streams = Lines(out, crew.rank), Lines(err, crew.rank)
    numbers = None if seed is None else RandomStates(ranks)

    def prepare(scheduler: Scheduler) -> None:
        if numbers is not None:
            scheduler.on_turn = numbers.enter
            scheduler.may_keep_waiting()

    def execute(rank: int) -> None:
        module = ModuleType("__main__")
        module.__file__ = path
        module.__builtins__ = builtins
        mains.enter(module)
        crew.enter(rank)
        try:
            exec(code, module.__dict__)
        finally:
            for lines in streams:
                lines.flush()
            for page in kept or ():
                page.labels[rank] = crew.label(rank)

    previous = sys.argv, sys.path, sys.modules["__main__"], sys.stdout, sys.stderr, sys.breakpointhook
    sys.argv = [path, *args]
    sys.path = [str(Path(path).resolve().parent), *sys.path[1:]]
    sys.modules["__main__"] = mains
    sys.stdout, sys.stderr = streams[0], streams[1] if labelled or kept else sys.stderr
    sys.breakpointhook = _no_breakpoint if kept else crew.breakpoint_hook(out, sys.breakpointhook)
    try:
        run_programs([partial(execute, rank) for rank in range(ranks)], seed, prepare=prepare)
    finally:
        sys.argv, sys.path, sys.modules["__main__"], sys.stdout, sys.stderr, sys.breakpointhook = previous
        if numbers is not None:
            numbers.leave()


class _Ranks:
    """Which rank a thread is, and what it is called."""

    def __init__(self):
        self._local = threading.local()
        self._processes: dict[int, object] = {}

    def enter(self, rank: int) -> None:
        self._local.rank = rank
        self._processes[rank] = current_world().process

    def rank(self) -> int | None:
        """That of the calling thread; None where a program has made the thread itself."""
        return getattr(self._local, "rank", None)

    def label(self, rank: int | None) -> str:
        """``[2 (1, 0)] ``: the rank, with its coordinates once it has made a grid."""
        return "[-] " if rank is None else f"[{self._processes[rank].label().removeprefix('rank ')}] "

    def breakpoint_hook(self, out: Shown, otherwise: Callable) -> Callable:
        """What ``breakpoint()`` calls: a debugger that knows of ranks, unless another one is asked for."""

        def stop(*args, **options):
            rank = self.rank()
            if rank is None or os.environ.get("PYTHONBREAKPOINT"):
                return otherwise(*args, **options)
            from spmd_grid.transport.simulated.rank_debugger import RankDebugger

            label = self._processes[rank].label()
            return RankDebugger(label, partial(out.held_by, rank)).set_trace(sys._getframe(1))

        return stop


def _no_breakpoint(*args, **options) -> None:
    pass


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
