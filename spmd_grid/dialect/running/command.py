"""The command line of a run of a module's function: ``run -n 4 program.mlir --main f ...``."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from threading import Lock

from xdsl.dialects.builtin import ModuleOp

from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.devices import grid_shapes, used_grids
from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.lines import lines_of
from spmd_grid.dialect.execute.process_groups import wanted_processes
from spmd_grid.dialect.running.job import Job, emitted, run_job
from spmd_grid.errors import SpmdError
from spmd_grid.program.text.stages import STAGES
from spmd_grid.typing import Shape

__all__ = ["module_at", "options_of", "run_here", "stage_of", "wanted_ranks"]

# Ranks may be threads: one reads a file, and all others take what it has read.
_READING = Lock()


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """The options after the name of the file.  Ends the program as argparse does where they are wrong."""
    parser = argparse.ArgumentParser(
        prog="spmd_grid run [-n N] program.mlir",
        description="Runs a function of a module in MLIR's shard dialect: one with local types as it stands, on every"
        " device; one with annotations (shard.shard) after it is partitioned.",
    )
    parser.add_argument("--main", metavar="NAME", help="the function; by default @main, or the only one")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="WHAT",
        help="the next argument: a .npy file, a number, or random, zeros, ones or iota, with a shape and a seed where"
        " wanted, as in random:4x8xf32@7; arguments that are not given are random. Functions with local types take"
        " arrays with the grid's dimensions in front, or one array for all devices",
    )
    parser.add_argument(
        "--output", action="append", default=[], metavar="FILE", help="where the next result goes: a .npy file, or .npz"
    )
    parser.add_argument(
        "--check", choices=["serial"], help="also run the function's serial meaning on one process, and compare"
    )
    parser.add_argument("--emit", choices=STAGES, help="print a stage of an annotated function, and do not run it")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        type=_grid_shape,
        metavar="[NAME=]2x3",
        help="the shape of a grid of which the text leaves sizes open, as in ?x?; the name may be left out if one has",
    )
    parser.add_argument("--print-values", action="store_true", help="print every value, with its line")
    parser.add_argument("--quiet", action="store_true", help="do not print the results")
    parser.add_argument("--no-optimise", action="store_true", help="leave out the passes that save communication")
    options = parser.parse_args(list(arguments))
    if options.emit and (options.check or options.output or options.print_values):
        parser.error("--emit prints a text and runs nothing; it excludes --check, --output and --print-values")
    return options


def _grid_shape(text: str) -> tuple[str, Shape]:
    """The name of a grid, "" where it is left out, and its shape."""
    name, _, sizes = text.rpartition("=")
    if re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", sizes) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no shape of a grid; one is NAME=2x3, or 2x3")
    return name.removeprefix("@"), tuple([int(n) for n in sizes.split("x")])


def module_at(path: str, arguments: Sequence[str] = ()) -> ModuleOp:
    """The module in a file, read once by all ranks of a process.  Raises what the reader raises, and OSError."""
    found, shapes = os.stat(path), tuple(options_of(arguments).grid)
    with _READING:
        return _read(path, found.st_mtime_ns, found.st_size, shapes)


@lru_cache(8)
def _read(path: str, changed: int, size: int, shapes: tuple[tuple[str, Shape], ...]) -> ModuleOp:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise ExecutionError(f"{path} is not text: {error}") from None
    return parse(text, file_name=path, grid_shapes=dict(shapes))


def _job(options: argparse.Namespace) -> Job:
    return Job(
        options.main,
        tuple(options.input),
        tuple(options.output),
        options.check == "serial",
        options.print_values,
        not options.quiet,
        not options.no_optimise,
    )


def wanted_ranks(path: str, arguments: Sequence[str]) -> int | None:
    """The number of devices of the function's first grid; None where it is known at run time only."""
    module, name = module_at(path, arguments), options_of(arguments).main
    shapes = grid_shapes(module)
    shape = next((shapes[each] for each in used_grids(module, name) if each in shapes), None)
    if shape is None:
        return wanted_processes(module) or 1
    return None if -1 in shape else prod(shape)


def stage_of(path: str, arguments: Sequence[str], size: int) -> str | None:
    """The text that ``--emit`` asks for; None where a run is asked for.  Plans only."""
    options = options_of(arguments)
    return None if options.emit is None else emitted(module_at(path, arguments), _job(options), options.emit, size)


def run_here(path: str, arguments: Sequence[str]) -> None:
    """Run the function by the processes of this program.  Collective over all of them.

    The traceback of an error that is raised on purpose has only lines of the text.
    """
    try:
        run_job(module_at(path, arguments), _job(options_of(arguments)))
    except SpmdError as error:
        raise error.with_traceback(lines_of(error.__traceback__, path)) from None
