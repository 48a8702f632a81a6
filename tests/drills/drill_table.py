"""Which drills were done and what came of them: operation x fault x transport, with the slowest one's seconds."""

from __future__ import annotations


class Table:
    """``cells``: by operation, fault and transport the number caught, the number missed, and the most seconds."""

    def __init__(self):
        self.cells: dict[tuple[str, str, str], tuple[int, int, float]] = {}

    def note(self, operation: str, fault: str, transport: str, is_caught: bool, seconds: float) -> None:
        caught, missed, most = self.cells.get((operation, fault, transport), (0, 0, 0.0))
        self.cells[operation, fault, transport] = caught + is_caught, missed + (not is_caught), max(most, seconds)

    def lines(self) -> list[str]:
        operations, faults, transports = (list(dict.fromkeys(key[i] for key in self.cells)) for i in range(3))
        lines = []
        for transport in transports:
            mine = [fault for fault in faults if any(key[1:] == (fault, transport) for key in self.cells)]
            lines += ["", f"{transport}: drills caught, and the most seconds until the end", _row("", mine)]
            for operation in operations:
                cells = [self._cell(operation, fault, transport) for fault in mine]
                if any(cell != "." for cell in cells):
                    lines.append(_row(operation, cells))
        caught, missed = (sum(cell[i] for cell in self.cells.values()) for i in range(2))
        slowest = max(cell[2] for cell in self.cells.values())
        return [*lines, "", f"{caught} drills caught, {missed} missed; the slowest took {slowest:.2f} s"]

    def _cell(self, operation: str, fault: str, transport: str) -> str:
        if (operation, fault, transport) not in self.cells:
            return "."
        caught, missed, seconds = self.cells[operation, fault, transport]
        return f"{caught} MISSED {missed}" if missed else f"{caught}  {seconds:.2f} s"


def _row(head: str, cells: list[str]) -> str:
    return f"{head:21}" + "".join(f"{cell.removeprefix('another '):>15}" for cell in cells)


TABLE = Table()
