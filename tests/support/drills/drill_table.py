"""A table of the drills and their outcomes: operation x fault x transport, with the slowest one's seconds.

As a plugin it gives drills ``noted``, and prints the table when all tests have ended.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from support.drills.drilled import DIFFERENCES, ENDS, OPERATIONS

LIMIT = 2.0  # seconds from the fault to the end, on a quiet machine


class Table:
    """``cells``: by operation, fault and transport the number caught, the number missed, and the most seconds."""

    def __init__(self):
        self.cells: dict[tuple[str, str, str], tuple[int, int, float]] = {}

    def note(self, operation: str, fault: str, transport: str, is_caught: bool, seconds: float) -> None:
        caught, missed, most = self.cells.get((operation, fault, transport), (0, 0, 0.0))
        self.cells[operation, fault, transport] = caught + is_caught, missed + (not is_caught), max(most, seconds)

    def lines(self) -> list[str]:
        lines = []
        for transport in sorted({key[2] for key in self.cells}, reverse=True):
            found = {key[1] for key in self.cells if key[2] == transport}
            mine = [fault for fault in (*DIFFERENCES, *ENDS) if fault in found]
            lines += ["", f"{transport}: drills caught, and the most seconds until the end", _row("", mine)]
            for operation in OPERATIONS:
                cells = [self._cell(operation, fault, transport) for fault in mine]
                if any(cell != "." for cell in cells):
                    lines.append(_row(operation, cells))
        caught, missed = (sum(cell[i] for cell in self.cells.values()) for i in range(2))
        slowest = max(cell[2] for cell in self.cells.values())
        limit = f"the limit is {LIMIT:g} s on a quiet machine, and longer on a busy one"
        return [*lines, "", f"{caught} drills caught, {missed} missed; the slowest took {slowest:.2f} s ({limit})"]

    def _cell(self, operation: str, fault: str, transport: str) -> str:
        if (operation, fault, transport) not in self.cells:
            return "."
        caught, missed, seconds = self.cells[operation, fault, transport]
        return f"{caught} MISSED {missed}" if missed else f"{caught}  {seconds:.2f} s"


def _row(head: str, cells: list[str]) -> str:
    return f"{head:21}" + "".join(f"{cell.removeprefix('another '):>15}" for cell in cells)


# -- the plugin ------------------------------------------------------------------------------------------------------


@pytest.fixture
def noted(request):
    """``with noted(operation, fault, transport, seconds)``: the last verdict, with what is in the list ``seconds``."""

    @contextmanager
    def noting(operation, fault, transport, seconds):
        is_caught = False
        try:
            yield
            is_caught = True
        finally:
            verdict = operation, fault, transport, is_caught, seconds[0] if seconds else 0.0
            others = [note for note in request.node.user_properties if note[0] != "drill"]
            request.node.user_properties[:] = [*others, ("drill", verdict)]

    return noting


_TABLE = Table()


def pytest_runtest_logreport(report):
    """Also of tests that ran in other processes."""
    if report.when == "call":
        for name, drill in report.user_properties:
            if name == "drill":
                _TABLE.note(*drill)


def pytest_terminal_summary(terminalreporter):
    if _TABLE.cells:
        terminalreporter.section("drills: operation x fault x transport")
        for line in _TABLE.lines():
            terminalreporter.write_line(line)
