"""Prints the table of the drills that were done."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from drill_table import TABLE  # noqa: E402 - found by what is above


def pytest_terminal_summary(terminalreporter):
    if TABLE.cells:
        terminalreporter.section("drills: operation x fault x transport")
        for line in TABLE.lines():
            terminalreporter.write_line(line)
