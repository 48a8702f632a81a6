"""``python -m spmd_grid trace``: what the operations of a program did and when, in words and as pictures."""

from __future__ import annotations

from spmd_grid.cli.layouts import reported
from spmd_grid.cli.option_types import given
from spmd_grid.viz.svg.communication import communication_svg
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.summary import trace_summary

__all__ = ["add_parser"]


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "trace",
        help="who waited, what took long, and what moved where, of a program that was traced",
        description="Reads what a program has written that ran with SPMD_GRID_TRACE=FOLDER, or 'spmd_grid run --trace"
        " FOLDER'. Prints a summary, and writes into the folder: trace.json, which https://ui.perfetto.dev and"
        " chrome://tracing show, and matrix.svg, the bytes that went from rank to rank. Waiting: from the beginning of"
        " an operation until the last rank that it needs has begun it, too; a wait() waits until its end.",
    )
    parser.add_argument("folder", type=given, help="where the program has written its trace")
    parser.set_defaults(command=reported("trace", _trace))


def _trace(options) -> str:
    trace = read_trace(options.folder)
    wrote = trace.write_joined()
    picture = trace.write("matrix.svg", communication_svg(trace.matrix(), trace.labels_of_all))
    return f"{trace_summary(trace)}\n\nwrote {wrote} and {picture}"
