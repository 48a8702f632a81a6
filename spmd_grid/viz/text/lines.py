"""Tables with borders, and arrows beside them: the parts of drawings as text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ARROW", "Cell", "ruled", "widths_of", "with_arrows"]

ARROW = "----------->"

Cell = list[str]  # the lines within


def widths_of(table: Sequence[Sequence[Cell]]) -> list[int]:
    """The width of each column."""
    return [max(len(line) for row in table for line in row[column]) for column in range(len(table[0]))]


def ruled(table: Sequence[Sequence[Cell]], widths: Sequence[int]) -> list[tuple[int | None, str]]:
    """The lines of ``table`` with borders, each with the number of the row that begins there."""
    border = "+" + "".join("-" * (width + 2) + "+" for width in widths)
    lines: list[tuple[int | None, str]] = [(None, border)]
    for n, row in enumerate(table):
        for k in range(max(map(len, row))):
            texts = [(cell[k] if k < len(cell) else "").ljust(width) for cell, width in zip(row, widths)]
            lines.append((None if k else n, f"| {' | '.join(texts)} |"))
        lines.append((None, border))
    return lines


def with_arrows(lines: Sequence[str], arrows: Sequence[tuple[str, int]]) -> list[str]:
    """``lines`` with downward arrows on the right, given by name and length in lines."""
    drawn = list(lines)
    for name, length in arrows:
        width, head = max(map(len, drawn)), f"  {name} |"
        for n in range(length):
            tail = head if n == 0 else ("↓" if n == length - 1 else "|").rjust(len(head))
            drawn[n] = drawn[n].ljust(width) + tail
    return drawn
