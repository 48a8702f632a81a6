"""``python -m spmd_grid trace``: a summary and pictures of the operations of a traced program."""

from __future__ import annotations

import argparse

from spmd_grid.cli.option_types import given
from spmd_grid.cli.reporting import reported
from spmd_grid.viz.svg.communication import communication_svg
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.summary import trace_summary

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "trace",
        help="summarise a traced program: waiting, long operations, bytes between ranks",
        description="Reads the trace of a program that ran with SPMD_GRID_TRACE=FOLDER, or 'spmd_grid run --trace"
        " FOLDER'. Prints a summary, and writes to the (first) folder: trace.json, for https://ui.perfetto.dev or"
        " chrome://tracing, and matrix.svg, the bytes sent from rank to rank. An operation waits from its beginning"
        " until the last rank that it needs has begun it, too; a wait() waits until its end.",
    )
    parser.add_argument(
        "folders", type=given, nargs="+", metavar="folder", help="the folder of the trace; several if hosts share none"
    )
    parser.set_defaults(command=reported("trace", _trace))


def _trace(options: argparse.Namespace) -> str:
    trace = read_trace(*options.folders)
    wrote = trace.write_joined()
    picture = trace.write("matrix.svg", communication_svg(trace.matrix(), trace.labels_of_all))
    return f"{trace_summary(trace)}\n\nwrote {wrote} and {picture}"
