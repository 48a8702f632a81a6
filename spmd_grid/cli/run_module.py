"""``python -m spmd_grid run program.mlir``: a module, on simulated ranks or under MPI."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from spmd_grid.cli.reporting import refuse, reported
from spmd_grid.errors import SpmdError, TransportError

__all__ = ["is_module", "run_module"]

_LAUNCHED = "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"


def is_module(path: str) -> bool:
    """Whether a file is a module of the dialect, by its name."""
    return path.endswith(".mlir")


def run_module(options: argparse.Namespace, simulate: Callable[[argparse.Namespace], int]) -> int:
    """Run a module; ``simulate`` runs a Python program on simulated ranks.  Returns the exit code."""
    try:
        from spmd_grid.dialect.running import command
    except ImportError as error:
        if "xdsl" not in str(error):
            raise
        return refuse("run", str(error))
    path, arguments = options.program, options.args
    try:
        asked = command.options_of(arguments)
        command.module_at(path, arguments)
        is_launched = options.ranks is None and not asked.emit and any(name in os.environ for name in _LAUNCHED)
        options.ranks = options.ranks or command.wanted_ranks(path, arguments)
    except (SpmdError, OSError) as error:
        return refuse("run", str(error))
    if is_launched:
        return _under_launcher(path, arguments)
    if options.ranks is None:
        sizes = "-n gives the number of ranks, --grid 2x3 after the file the shape"
        return refuse("run", f"the grid of {path} is known at run time only; {sizes}")
    if asked.emit:
        return reported("run", lambda _: command.stage_of(path, arguments, options.ranks) or "")(options)
    driver = Path(command.__file__).with_name("driver.py")
    return simulate(argparse.Namespace(**{**vars(options), "program": str(driver), "args": [path, *arguments]}))


def _under_launcher(path: str, arguments: list[str]) -> int:
    """Run by the processes that the launcher has started; an error that leaves the program ends all of them."""
    from spmd_grid.dialect.running.command import run_here

    try:
        run_here(path, arguments)
    except TransportError as error:
        return refuse("run", str(error))
    return 0
