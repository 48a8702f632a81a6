"""Entry point of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]

# The module of each command, in the order of the help text.
_MODULES = {
    "run": "run",
    "plan": "plan",
    "show": "show",
    "bench": "bench.command",
    "doctor": "doctor.command",
    "trace": "trace",
    "checkpoint": "checkpoint",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse ``arguments`` (default: those of the process) and run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="spmd_grid",
        description="SPMD programs on grids of devices. 'spmd_grid COMMAND --help' lists the options of a command.",
        epilog="'spmd_grid' and 'python -m spmd_grid' are the same.",
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    words = sys.argv[1:] if arguments is None else arguments
    # A command loads its own module only: half of the time that a short program takes would go into the others.
    for name in words[:1] if words and words[0] in _MODULES else _MODULES:
        import_module(f"spmd_grid.cli.{_MODULES[name]}").add_parser(commands)
    options = parser.parse_args(words)
    for name, value in vars(options).items():
        if value == [] and name != "args":  # argparse turns --name=-- into this
            parser.error(f"--{name.replace('_', '-')} is '--', which is not a value")
    return options.command(options)


if __name__ == "__main__":
    sys.exit(main())
