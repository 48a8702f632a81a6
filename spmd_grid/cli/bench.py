"""``python -m spmd_grid bench``: against what one writes by hand and other libraries; planning, checking, starting."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from spmd_grid.bench.common.launch import inside_a_job, on_ranks
from spmd_grid.bench.common.plot import SUFFIXES
from spmd_grid.bench.common.report import Outputs, read_again
from spmd_grid.bench.common.rows import LIBRARIES, matching_cases
from spmd_grid.bench.halo import cases as halo_cases
from spmd_grid.bench.ops import cases as ops_cases
from spmd_grid.bench.plan import cases as plan_cases
from spmd_grid.bench.reshard import cases as reshard_cases
from spmd_grid.bench.start import cases as start_cases
from spmd_grid.cli.layouts import refuse
from spmd_grid.cli.option_types import MOST_PROCESSES, MOST_ROUNDS, given, whole
from spmd_grid.errors import TransportError
from spmd_grid.numerals import shown

__all__ = ["add_parser"]

_ROUNDS, _QUICK_ROUNDS = 61, 9
_OVERLAP_ROUNDS = 15
_START_ROUNDS, _QUICK_START_ROUNDS = 15, 3
_TEXTS = "rows", "json", "markdown", "plot", "figures"


class _RefusedError(Exception):
    """What was asked for cannot be done; the text says why."""


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure against what one writes by hand with mpi4py",
        description="Measures on MPI's processes, and starts them unless it runs on several already.",
    )
    kinds = parser.add_subparsers(metavar="what", required=True)
    ops = kinds.add_parser(
        "ops",
        help="collective operations against the same by hand",
        description="Time per call of ten collective operations on 8 B to 64 MiB of doubles per rank: plain calls,"
        " plans, arrays that other processes can read and plain numpy arrays; and of mpi4py by hand: buffer"
        " collectives with numpy packing, subarray types, persistent requests. Interleaved in one run; the array is"
        " rewritten before every call.",
    )
    _add_options(ops, "'all_gather*1 MiB'", "few bytes, few rounds")
    _add_plot(ops)
    _add_ranks(ops)
    ops.set_defaults(command=_command(_bench_ops))
    halo = kinds.add_parser(
        "halo",
        help="HaloExchange against hand-written halo exchanges",
        description="Microseconds per update of HaloExchange, and of hand-written mpi4py: Isend/Irecv, persistent"
        " requests and Neighbor_alltoallw, with views, subarray types and packing. Interleaved in one run, on periodic"
        " fields of doubles cut along the first or the last dimension; all faces are rewritten before every update."
        " Then how much of a large exchange hides behind computing.",
    )
    _add_options(halo, "'2-d 64^2 rows*1 field'", "a few rows, few rounds, no overlap")
    _add_ranks(halo)
    halo.add_argument("--overlap", action="store_true", help="only how much of an exchange hides behind computing")
    halo.set_defaults(command=_command(_bench_halo))
    reshard = kinds.add_parser(
        "reshard",
        help="run_plan against hand-written reshardings and other libraries",
        description="Time per resharding of doubles by run_plan, and by hand-written mpi4py: Alltoallw and Isend/Irecv"
        " with subarray types, Alltoallv with numpy packing, and their persistent forms; also by mpi4py-fft, heat and"
        " torch's DTensor, if they are installed. Interleaved in one run, on arrays of 2 and 3 dimensions cut along"
        " one before and along another after; the source is rewritten before every call. JAX, if installed, is measured"
        " row by row in a process of its own.",
    )
    _add_options(reshard, "'2-d 512^2 rows to columns'", "a few rows, few rounds")
    _add_plot(reshard)
    _add_ranks(reshard)
    reshard.add_argument(
        "--peers",
        type=_libraries,
        metavar="LIST",
        help=f"which other libraries take part, or 'none' ({','.join(LIBRARIES)})",
    )
    reshard.set_defaults(command=_command(_bench_reshard))
    plan = kinds.add_parser(
        "plan",
        help="how long one process takes to plan, on grids of 8 to 1,048,576 devices",
        description="Microseconds in which one process plans: makes both layouts and lists what it sends and receives."
        " On grids of 8 to 1,048,576 devices on which it has equally many partners, and with very many on the largest;"
        " also milliseconds of plan_reshard and of totals(). No other processes are needed.",
    )
    _add_options(plan, "'swap'", "only the smallest and the largest grids, few rounds")
    plan.set_defaults(command=_command(_bench_plan))
    watch = kinds.add_parser(
        "watch",
        help="what recording and checking add to an operation",
        description="Time per operation plain, recorded (as with a timeout) and checked (as with check=True), by turns"
        " in one run, on small arrays; and the time in which an operation finds that it is neither.",
    )
    _add_options(watch, "'all_reduce'", "a few rows, few rounds")
    _add_ranks(watch)
    watch.set_defaults(command=_command(_bench_watch))
    kernels = kinds.add_parser(
        "kernels",
        help="the compiled kernels against numpy, in one process",
        description="How fast the compiled kernels copy and combine, beside what numpy does with the same arrays. No"
        " other processes are needed.",
    )
    _add_options(kernels, "'copy'", "a few rows, few rounds")
    kernels.set_defaults(command=_command(_bench_kernels))
    start = kinds.add_parser(
        "start",
        help="how long importing the package and a first operation take in a fresh process",
        description="Milliseconds that a fresh process takes to import the package, beyond numpy, and for its first"
        " operation, beyond importing numba; each in processes of its own, by turns.",
    )
    _add_options(start, "'first'", "the imports and one operation, few rounds", (_START_ROUNDS, _QUICK_START_ROUNDS))
    start.set_defaults(command=_command(_bench_start))


def _add_options(parser, example: str, quick: str, rounds: tuple[int, int] = (_ROUNDS, _QUICK_ROUNDS)) -> None:
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--rows", type=given, metavar="PATTERN", help=f"only rows whose name contains this, such as {example}"
    )
    parser.add_argument(
        "--rounds",
        type=whole(1, MOST_ROUNDS),
        metavar="N",
        help="how often all take their turn ({}; {} with --quick)".format(*rounds),
    )
    parser.add_argument("--json", type=given, metavar="PATH", help="write all figures here")
    parser.add_argument("--markdown", type=given, metavar="PATH", help="write the table here")


def _add_plot(parser) -> None:
    parser.add_argument(
        "--plot", type=given, metavar="PATH", help=f"draw size against time here ({', '.join(SUFFIXES)})"
    )
    parser.add_argument(
        "--from",
        dest="figures",
        type=given,
        metavar="PATH",
        help="measure nothing: print, write and draw the rows of a file that --json wrote",
    )


def _add_ranks(parser) -> None:
    parser.add_argument(
        "-n", "--ranks", type=whole(1, MOST_PROCESSES), default=2, metavar="N", help="MPI processes to start (2)"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # said to the processes that are started


# -- the commands ----------------------------------------------------------------------------------------------


def _bench_halo(options) -> int:
    cases = _cases(options, halo_cases)
    if _is_elsewhere(options):
        return _on_ranks("halo", options)
    from spmd_grid.bench.halo.measure import run_bench

    overlap_rounds = _overlap_rounds(options)
    run_bench([] if options.overlap else cases, _rounds(options), overlap_rounds, options.json, options.markdown)
    return 0


def _bench_ops(options) -> int:
    cases = _cases(options, ops_cases)
    if options.figures:
        from spmd_grid.bench.ops.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    if _is_elsewhere(options):
        return _on_ranks("ops", options)
    from spmd_grid.bench.ops.measure import run_bench

    run_bench(cases, _rounds(options), _outputs(options))
    return 0


def _bench_reshard(options) -> int:
    cases = _cases(options, reshard_cases)
    if options.figures:
        from spmd_grid.bench.reshard.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    if _is_elsewhere(options):
        return _on_ranks("reshard", options)
    from spmd_grid.bench.reshard.measure import run_bench

    run_bench(cases, _rounds(options), options.peers.split(",") if options.peers else LIBRARIES, _outputs(options))
    return 0


def _bench_plan(options) -> int:
    from spmd_grid.bench.plan.measure import run_bench

    run_bench(_cases(options, plan_cases), _rounds(options), options.json, options.markdown)
    return 0


def _bench_watch(options) -> int:
    from spmd_grid.bench.watch import cases as watch_cases

    cases = _cases(options, watch_cases)
    if _is_elsewhere(options):
        return _on_ranks("watch", options)
    from spmd_grid.bench.watch.measure import run_bench

    run_bench(cases, _rounds(options), options.json, options.markdown)
    return 0


def _bench_kernels(options) -> int:
    from spmd_grid.bench.kernels import cases as kernel_cases
    from spmd_grid.bench.kernels.measure import run_bench

    run_bench(_cases(options, kernel_cases), _rounds(options), options.json, options.markdown)
    return 0


def _bench_start(options) -> int:
    from spmd_grid.bench.start.measure import run_bench

    rounds = options.rounds or (_QUICK_START_ROUNDS if options.quick else _START_ROUNDS)
    run_bench(_cases(options, start_cases), rounds, options.json, options.markdown)
    return 0


def _from_figures(subject, options) -> int:
    """Tells of rows that were measured before."""
    try:
        found = read_again(subject, options.figures, options.rows, _outputs(options))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _RefusedError(
            f"{options.figures!r} has no figures of bench {subject.kind} ({type(error).__name__}: {error})"
        ) from None
    if not found:
        raise _RefusedError(f"{options.figures!r} has no row whose name contains {options.rows!r}")
    return 0


def _command(bench: Callable) -> Callable:
    def run(options) -> int:
        for name, value in vars(options).items():
            if value is None and name in _TEXTS:
                setattr(options, name, "")
        try:
            return bench(options)
        except (_RefusedError, TransportError, OSError) as error:
            return refuse("bench", str(error))

    return run


# -- options ---------------------------------------------------------------------------------------------------


def _cases(options, room) -> Sequence:
    """The rows to measure, of those that the module ``room`` has; refuses what would fail after minutes."""
    cases = room.quick_cases() if options.quick and not options.rows else room.all_cases()
    found = matching_cases(cases, options.rows)
    if not found:
        raise _RefusedError(f"no row's name contains {options.rows!r}; they are like {cases[0].name!r}")
    plot = getattr(options, "plot", "")
    for path in filter(None, (options.json, options.markdown, plot)):
        if not Path(path).resolve().parent.is_dir() or Path(path).is_dir():
            raise _RefusedError(f"cannot write {path!r}: there is no such folder, or it is one itself")
    if plot and Path(plot).suffix not in SUFFIXES:
        raise _RefusedError(f"cannot draw {plot!r}: its name must end in one of {', '.join(SUFFIXES)}")
    if plot and find_spec("matplotlib") is None:
        raise _RefusedError("--plot needs matplotlib; 'pip install \"spmd-grid[bench]\"' brings it")
    return found


def _outputs(options) -> Outputs:
    return Outputs(options.json, options.markdown, options.plot)


def _rounds(options) -> int:
    return options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)


def _overlap_rounds(options) -> int:
    if options.overlap:
        return options.rounds or (_QUICK_ROUNDS if options.quick else _OVERLAP_ROUNDS)
    return 0 if options.quick or options.rows else _OVERLAP_ROUNDS


def _is_elsewhere(options) -> bool:
    """Whether the processes that measure have yet to be started."""
    return not options.here and not inside_a_job()


def _on_ranks(kind: str, options) -> int:
    """Starts the processes that measure, with the options as they were given."""
    words = [f"--{name}" for name in ("quick", "overlap") if getattr(options, name, False)]
    names = "rows", "rounds", "json", "markdown", "plot", "peers"
    valued = [(name, getattr(options, name, None)) for name in names]
    words += [f"--{name}={value}" for name, value in valued if value]
    return on_ranks(options.ranks, ["bench", kind, "--here", *words])


def _libraries(text: str) -> str:
    names = [] if text == "none" else text.split(",")
    for name in names:
        if name not in LIBRARIES:
            raise argparse.ArgumentTypeError(f"{shown(name)}; it must be one of {', '.join(LIBRARIES)}, or none")
    return text
