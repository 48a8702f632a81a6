"""``python -m spmd_grid run``: a program on simulated ranks; a module of the shard dialect also under MPI."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
import traceback
from itertools import islice
from pathlib import Path
from types import TracebackType

from spmd_grid.cli.option_types import MOST_ROUNDS, given, whole
from spmd_grid.cli.run_module import is_module, run_module
from spmd_grid.errors import RankEndedError
from spmd_grid.numerals import shown
from spmd_grid.transport.simulated.limits import most_ranks
from spmd_grid.transport.simulated.program import run_program
from spmd_grid.transport.simulated.seeds import Outcome, Seeds, run_seeds

__all__ = ["add_parser"]

_PACKAGE = str(Path(__file__).parent.parent) + os.sep
_MOST_LINES = 12  # shown of a difference or a failure


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run a program on simulated ranks, without MPI",
        description="Runs the program of 'mpiexec -n N python app.py', unchanged, on N simulated ranks: threads of this"
        " process, each with its own __main__. Modules that the program imports are shared. breakpoint() stops one"
        " rank, while the others go on until they need it. A file that ends in .mlir is a module of MLIR's shard"
        " dialect: its grid says how many ranks there are, and options for it follow its name (run X.mlir --help).",
    )
    parser.add_argument(
        "-n",
        "--ranks",
        type=whole(1, most_ranks()),
        metavar="N",
        help="number of simulated ranks; required, unless a module says it",
    )
    order = parser.add_mutually_exclusive_group()
    order.add_argument(
        "--seed", type=whole(), help="run one rank at a time, in an order that this number alone decides"
    )
    order.add_argument(
        "--seeds",
        type=whole(1, MOST_ROUNDS),
        metavar="K",
        help="run under the seeds 0 to K-1 and compare what each rank prints, to find what depends on timing",
    )
    parser.add_argument("--label", action="store_true", help="begin every printed line with its rank and coordinates")
    parser.add_argument(
        "--trace",
        type=given,
        metavar="FOLDER",
        help="write a trace to this folder, for 'spmd_grid trace'",
    )
    parser.add_argument("program", type=given, help="the Python file, or the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the program, or options of the module")

    def run_either(options: argparse.Namespace) -> int:
        if is_module(options.program):
            return run_module(options, run) if os.path.isfile(options.program) else run(options)
        if options.ranks is None:
            parser.error("the following arguments are required: -n/--ranks")
        return run(options)

    parser.set_defaults(command=run_either)


def run(options: argparse.Namespace) -> int:
    if not os.path.isfile(options.program):  # Path.is_file raises for names that are too long
        print(f"spmd_grid run: there is no file {shown(options.program)}", file=sys.stderr)
        return 2
    if options.seeds is not None and (options.trace is not None or options.label):
        print("spmd_grid run: --seeds excludes --trace and --label; use --seed for one run", file=sys.stderr)
        return 2
    if options.trace is not None:
        os.environ["SPMD_GRID_TRACE"] = os.path.abspath(options.trace)
    try:
        if options.seeds is not None:
            os.environ.pop("SPMD_GRID_TRACE", None)
            seeds = run_seeds(options.program, options.args, options.ranks, options.seeds)
            print(_report(options, seeds))
            return 1 if seeds.differing or seeds.failing else 0
        run_program(options.program, options.args, options.ranks, options.seed, labelled=options.label)
    except RankEndedError as error:
        print(f"spmd_grid run: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("spmd_grid run: interrupted", file=sys.stderr)
        return 130
    except BaseException as error:
        print(_failure(error), end="", file=sys.stderr)
        return 1
    return 0


def _report(options: argparse.Namespace, seeds: Seeds) -> str:
    """A comparison of the runs: the first with different output, the first that fails, and how to repeat them."""
    first, name = seeds.outcomes[0], Path(options.program).name
    lines = [f"{name} on {options.ranks} ranks under {len(seeds.outcomes)} seeds, one rank at a time:"]
    if not seeds.differing and not seeds.failing:
        return f"{lines[0]} all runs print the same"
    alike = len(seeds.outcomes) - len(seeds.differing)
    lines.append(f"  {alike} end as seed 0 does, {len(seeds.differing)} do not; {len(seeds.failing)} fail")
    if not seeds.is_repeatable:
        lines.append("  but two runs under seed 0 differ, too: the program prints times, addresses or random numbers,")
        lines.append("  so differences in its output prove nothing")
    printing = [outcome for outcome in seeds.differing if outcome.failure is None and first.failure is None]
    if printing:
        lines += ["", f"seed {printing[0].seed} is the first with different output:"]
        lines += _differences(first, printing[0])
        lines.append(f"  again: {_again(options, printing[0].seed)}")
    if seeds.failing:
        failing = seeds.failing[0]
        lines += ["", f"seed {failing.seed} is the first that fails:"]
        lines += _shortened(_failure(failing.failure).rstrip().splitlines())
        lines.append(f"  again: {_again(options, failing.seed)}")
    return "\n".join(lines)


def _differences(one: Outcome, other: Outcome) -> list[str]:
    """The output of the first rank that differs, and the numbers of the other ranks that differ."""
    ranks = [r for r in sorted({*one.printed, *other.printed}, key=str) if one.printed.get(r) != other.printed.get(r)]
    before, after = (outcome.printed.get(ranks[0], "").splitlines() for outcome in (one, other))
    label = other.labels[ranks[0]]
    changes = [
        line for line in islice(difflib.unified_diff(before, after, lineterm="", n=1), 2, None) if line[:2] != "@@"
    ]
    shown = _shortened([f"{line[:1]} {label}{line[1:]}" for line in changes])
    others = f"  ranks {', '.join(map(str, ranks[1:]))} differ, too" if ranks[1:] else ""
    heads = [f"  - seed {one.seed}", f"  + seed {other.seed}"]
    return heads + shown + [others] * bool(others)


def _shortened(lines: list[str]) -> list[str]:
    left_out = len(lines) - _MOST_LINES
    return [f"  {line}" for line in lines[:_MOST_LINES]] + [f"  ... {left_out} more lines"] * (left_out > 0)


def _again(options: argparse.Namespace, seed: int) -> str:
    command = ["python", "-m", "spmd_grid", "run", "-n", str(options.ranks), "--seed", str(seed), "--label"]
    return shlex.join([*command, options.program, *options.args])


def _failure(error: BaseException | None) -> str:
    """An error with the traceback of the program's own calls, or without one if there are none."""
    if error is None:
        return ""
    trace = _from_the_program_on(error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, trace))


def _from_the_program_on(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the calls with which this package starts the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return trace
