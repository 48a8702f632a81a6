"""Entry point of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spmd_grid.cli import checkpoint, plan, run, show, trace
from spmd_grid.cli.bench import command as bench
from spmd_grid.cli.doctor import command as doctor

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse ``arguments`` (default: those of the process) and run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="spmd_grid",
        description="SPMD programs on grids of devices. 'spmd_grid COMMAND --help' lists the options of a command.",
        epilog="'spmd_grid' and 'python -m spmd_grid' are the same.",
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    run.add_parser(commands)
    plan.add_parser(commands)
    show.add_parser(commands)
    bench.add_parser(commands)
    doctor.add_parser(commands)
    trace.add_parser(commands)
    checkpoint.add_parser(commands)
    options = parser.parse_args(arguments)
    for name, value in vars(options).items():
        if value == [] and name != "args":  # argparse turns --name=-- into this
            parser.error(f"--{name.replace('_', '-')} is '--', which is not a value")
    return options.command(options)


if __name__ == "__main__":
    sys.exit(main())
