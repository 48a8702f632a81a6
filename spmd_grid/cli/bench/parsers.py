"""The parser of a benchmark's options."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence

from spmd_grid.bench.common.plot import SUFFIXES
from spmd_grid.cli.bench.subjects import Benchmark
from spmd_grid.cli.option_types import MOST_PROCESSES, MOST_ROUNDS, given, size, whole
from spmd_grid.numerals import shown

__all__ = ["add_benchmark"]


def add_benchmark(kinds: argparse._SubParsersAction[ArgumentParser], benchmark: Benchmark) -> ArgumentParser:
    """Adds the command that runs a benchmark."""
    parser = kinds.add_parser(benchmark.kind, help=benchmark.title, description=benchmark.description)
    _add_rows(parser, benchmark)
    if benchmark.keeps_figures:
        _add_figures(parser)
    if benchmark.on_ranks:
        _add_ranks(parser)
    if benchmark.libraries:
        _add_peers(parser, benchmark.libraries)
    _OWN_OPTIONS.get(benchmark.kind, lambda parser: None)(parser)
    return parser


def _add_rows(parser: ArgumentParser, benchmark: Benchmark) -> None:
    parser.add_argument("--quick", action="store_true", help=benchmark.quick)
    parser.add_argument(
        "--rows", type=given, metavar="PATTERN", help=f"only rows whose name contains this, such as {benchmark.row}"
    )
    parser.add_argument(
        "--rounds",
        type=whole(1, MOST_ROUNDS),
        metavar="N",
        help="number of rounds, in each of which all take a turn ({}; {} with --quick)".format(*benchmark.rounds),
    )
    parser.add_argument("--json", type=given, metavar="PATH", help="write all figures to this file")
    parser.add_argument("--markdown", type=given, metavar="PATH", help="write the table to this file")


def _add_figures(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--plot", type=given, metavar="PATH", help=f"draw time against size to this file ({', '.join(SUFFIXES)})"
    )
    parser.add_argument(
        "--from",
        dest="figures",
        type=given,
        metavar="PATH",
        help="measure nothing; print, write and draw the rows of a file that --json wrote",
    )


def _add_ranks(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--ranks", type=whole(1, MOST_PROCESSES), default=2, metavar="N", help="MPI processes to start (2)"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # given to the processes it starts


def _add_peers(parser: ArgumentParser, libraries: Sequence[str]) -> None:
    def names(text: str) -> str:
        for name in [] if text == "none" else text.split(","):
            if name not in libraries:
                raise argparse.ArgumentTypeError(f"{shown(name)}; it must be one of {', '.join(libraries)}, or none")
        return text

    text = f"the other libraries to measure, or 'none' ({','.join(libraries)})"
    parser.add_argument("--peers", type=names, metavar="LIST", help=text)


def _add_overlap(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--overlap", action="store_true", help="measure only the part of an exchange that hides behind computing"
    )


def _add_size_and_folder(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        type=size,
        metavar="BYTES",
        help="of the array, such as 256MiB, in place of 64 MiB and 2 GiB; loading takes up to six times as much disk",
    )
    parser.add_argument(
        "--folder", type=given, metavar="PATH", help="the folder to write in (that for temporary files)"
    )


def _add_links_name(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--links-name",
        type=given,
        metavar="NAME",
        help="what to call these links; rows of other names in the file of --json stay there",
    )


def _add_links_and_calmest(parser: ArgumentParser) -> None:
    _add_links_name(parser)
    parser.add_argument(
        "--calmest",
        action="store_true",
        help="of rows that are in the file of --json, keep the measurement in which all together took less time",
    )


def _add_links_and_seed(parser: ArgumentParser) -> None:
    _add_links_name(parser)
    parser.add_argument(
        "--seed",
        type=whole(1),
        metavar="N",
        help="measure 60 other reshardings, drawn for this number, and nothing else",
    )


_OWN_OPTIONS: Mapping[str, Callable[[ArgumentParser], None]] = {
    "halo": _add_overlap,
    "links": _add_links_and_seed,
    "network": _add_links_and_calmest,
    "storage": _add_size_and_folder,
}
