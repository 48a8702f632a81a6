"""``python -m spmd_grid bench``: benchmarks against what one writes by hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spmd_grid.bench.halo_cases import all_cases, matching_cases, quick_cases
from spmd_grid.bench.launch import inside_a_job, on_ranks
from spmd_grid.errors import TransportError

__all__ = ["add_parser"]

_ROUNDS, _QUICK_ROUNDS = 61, 9
_OVERLAP_ROUNDS = 15


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure against what one writes by hand with mpi4py",
        description="Measures on MPI's processes, and starts them unless it runs on several already.",
    )
    kinds = parser.add_subparsers(metavar="what", required=True)
    halo = kinds.add_parser(
        "halo",
        help="HaloExchange against hand-written halo exchanges",
        description="Microseconds per update of HaloExchange, and of hand-written mpi4py: Isend/Irecv, persistent"
        " requests and Neighbor_alltoallw, with views, subarray types and packing. Interleaved in one run, on periodic"
        " fields of doubles cut along the first or the last dimension; all faces are rewritten before every update."
        " Then how much of a large exchange hides behind computing.",
    )
    halo.add_argument("-n", "--ranks", type=_positive, default=2, metavar="N", help="MPI processes to start (2)")
    halo.add_argument("--quick", action="store_true", help="a few rows, few rounds, no overlap")
    halo.add_argument(
        "--rows",
        default="",
        metavar="PATTERN",
        help="only rows whose name contains this, such as '2-d 64^2 rows*1 field'",
    )
    halo.add_argument(
        "--rounds",
        type=_positive,
        metavar="N",
        help=f"how often all take their turn ({_ROUNDS}; {_QUICK_ROUNDS} with --quick)",
    )
    halo.add_argument("--overlap", action="store_true", help="only how much of an exchange hides behind computing")
    halo.add_argument("--json", default="", metavar="PATH", help="write all figures here")
    halo.add_argument("--markdown", default="", metavar="PATH", help="write the table here")
    halo.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # said to the processes that are started
    halo.set_defaults(command=_bench_halo)


def _bench_halo(options) -> int:
    cases = quick_cases() if options.quick and not options.rows else matching_cases(all_cases(), options.rows)
    if not cases:
        return _refuse(f"no row's name contains {options.rows!r}; they are like {all_cases()[0].name!r}")
    for path in filter(None, (options.json, options.markdown)):  # not after minutes of measuring
        if not Path(path).resolve().parent.is_dir() or Path(path).is_dir():
            return _refuse(f"cannot write {path!r}: there is no such folder, or it is one itself")
    try:
        if not options.here and not inside_a_job():
            return on_ranks(options.ranks, ["bench", "halo", "--here", *_words(options)])
        from spmd_grid.bench.halo import run_bench

        run_bench(
            [] if options.overlap else cases,
            options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS),
            _overlap_rounds(options),
            options.json,
            options.markdown,
        )
    except TransportError as error:
        return _refuse(error)
    return 0


def _overlap_rounds(options) -> int:
    if options.overlap:
        return options.rounds or (_QUICK_ROUNDS if options.quick else _OVERLAP_ROUNDS)
    return 0 if options.quick or options.rows else _OVERLAP_ROUNDS


def _words(options) -> list[str]:
    """The options as they were given, for the processes that measure."""
    words = [f"--{name}" for name in ("quick", "overlap") if getattr(options, name)]
    valued = [(name, getattr(options, name)) for name in ("rows", "rounds", "json", "markdown")]
    return words + [f"--{name}={value}" for name, value in valued if value]


def _refuse(reason) -> int:
    print(f"spmd_grid bench: {reason}", file=sys.stderr)
    return 2


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}; it must be at least 1")
    return number
