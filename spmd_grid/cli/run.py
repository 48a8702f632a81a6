"""``python -m spmd_grid run``: a program on simulated ranks."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from spmd_grid.errors import RankEndedError
from spmd_grid.transport.program import run_program

__all__ = ["add_parser"]

_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run a program on simulated ranks, without MPI",
        description="Runs the program that 'mpirun -n N python app.py' runs, unchanged, on N simulated ranks: threads"
        " of this process, each with a __main__ of its own. Modules that the program imports are shared.",
    )
    parser.add_argument("-n", "--ranks", type=_positive, required=True, metavar="N", help="number of simulated ranks")
    parser.add_argument("--seed", type=int, help="run one rank at a time, in an order that this number alone decides")
    parser.add_argument("program", help="the Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(command=run)


def run(options) -> int:
    if not Path(options.program).is_file():
        print(f"spmd_grid run: there is no file {options.program!r}", file=sys.stderr)
        return 2
    try:
        run_program(options.program, options.args, options.ranks, options.seed)
    except RankEndedError as error:
        print(f"spmd_grid run: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("spmd_grid run: interrupted", file=sys.stderr)
        return 130
    except BaseException as error:  # noqa: BLE001 - whatever ended the program is shown
        traceback.print_exception(error.with_traceback(_from_the_program_on(error.__traceback__)))
        return 1
    return 0


def _from_the_program_on(trace):
    """A traceback without the calls by which this package starts the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return trace


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} ranks; there must be at least 1")
    return number
