"""Whole programs on simulated ranks: the same file that ``mpirun -n N python app.py`` runs.

Every rank executes the file in a ``__main__`` of its own, and its output is shown in whole lines.  Imported modules are
shared, as among threads.  ``breakpoint()`` stops the rank that calls it, while the others run on.
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
from typing import Any

from spmd_grid.transport.communicator import Process
from spmd_grid.transport.launch import current_world, run_programs
from spmd_grid.transport.simulated.output import KeptOutput, LineStream, ShownOutput
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
    kept: tuple[KeptOutput, KeptOutput] | None = None,
) -> None:
    """Runs the program file on simulated ranks; raises as ``run_spmd`` does.

    With a seed, ``random`` and ``numpy.random`` give the same numbers in every run, different ones on each rank, and
    messages may keep their senders waiting.  ``labelled``: every line begins with its rank.  ``kept``: collect standard
    output and standard error, which then are not shown; breakpoints are ignored.
    """
    code = compile(Path(path).read_bytes(), path, "exec")
    mains = _MainModules(sys.modules["__main__"])
    ranks_here = _RankThreads()
    shown = ShownOutput(sys.stdout, ranks_here.label if labelled else None), ShownOutput(sys.stderr, ranks_here.label)
    out, err = kept or shown
    streams = LineStream(out, ranks_here.rank), LineStream(err, ranks_here.rank)
    numbers = None if seed is None else RandomStates(ranks)

    def prepare(scheduler: Scheduler) -> None:
        if numbers is not None:
            scheduler.on_turn = numbers.enter
            scheduler.may_keep_waiting()

    def execute(rank: int) -> None:
        module = ModuleType("__main__")
        module.__file__ = path
        vars(module)["__builtins__"] = builtins
        mains.enter(module)
        ranks_here.enter(rank)
        try:
            exec(code, module.__dict__)
        finally:
            for lines in streams:
                lines.flush()
            for output in kept or ():
                output.labels[rank] = ranks_here.label(rank)

    previous = sys.argv, sys.path, sys.modules["__main__"], sys.stdout, sys.stderr, sys.breakpointhook
    sys.argv = [path, *args]
    sys.path = [str(Path(path).resolve().parent), *sys.path[1:]]
    sys.modules["__main__"] = mains
    sys.stdout, sys.stderr = streams[0], streams[1] if labelled or kept else sys.stderr
    sys.breakpointhook = _no_breakpoint if kept else ranks_here.breakpoint_hook(shown[0], sys.breakpointhook)
    try:
        run_programs([partial(execute, rank) for rank in range(ranks)], seed, prepare=prepare)
    finally:
        sys.argv, sys.path, sys.modules["__main__"], sys.stdout, sys.stderr, sys.breakpointhook = previous
        if numbers is not None:
            numbers.leave()


class _RankThreads:
    """The ranks of threads, and their labels."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._processes: dict[int, Process] = {}

    def enter(self, rank: int) -> None:
        self._local.rank = rank
        self._processes[rank] = current_world().process

    def rank(self) -> int | None:
        """The rank of the calling thread; None if the program has made the thread itself."""
        return getattr(self._local, "rank", None)

    def label(self, rank: int | None) -> str:
        """``[2 (1, 0)] ``: the rank, with its coordinates once it has made a grid."""
        return "[-] " if rank is None else f"[{self._processes[rank].label().removeprefix('rank ')}] "

    def breakpoint_hook(self, out: ShownOutput, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """The hook of ``breakpoint()``: a debugger that shows the rank, unless another one is requested."""

        def stop(*args: Any, **options: Any) -> Any:
            rank = self.rank()
            if rank is None or os.environ.get("PYTHONBREAKPOINT"):
                return otherwise(*args, **options)
            from spmd_grid.transport.simulated.rank_debugger import RankDebugger

            label = self._processes[rank].label()
            return RankDebugger(label, partial(out.held_by, rank)).set_trace(sys._getframe(1))

        return stop


def _no_breakpoint(*args: Any, **options: Any) -> None:
    pass


class _MainModules(ModuleType):
    """The module ``__main__`` during a run: each rank sees its own, other threads the launcher's."""

    def __init__(self, launcher: ModuleType):
        super().__init__("__main__")
        object.__setattr__(self, "_launcher", launcher)
        object.__setattr__(self, "_local", threading.local())

    def enter(self, module: ModuleType) -> None:
        object.__getattribute__(self, "_local").module = module

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__
        if name == "enter":
            return own(self, name)
        return getattr(getattr(own(self, "_local"), "module", own(self, "_launcher")), name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = object.__getattribute__
        setattr(getattr(own(self, "_local"), "module", own(self, "_launcher")), name, value)
