"""Numbers with units, tables of text, and text from outside, as reports, explanations and drawings print them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = ["aligned", "bytes_text", "count_text", "printable", "seconds_text", "spans", "told_apart"]

_BYTE_UNITS = "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"


def bytes_text(n: int) -> str:
    """A number of bytes, to four digits, in a suitable unit.  Local.

    >>> bytes_text(1000), bytes_text(1 << 20), bytes_text(1536)
    ('1000 B', '1 MiB', '1.5 KiB')
    """
    value, unit = float(n), 0
    while value >= 1024 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.4g} {_BYTE_UNITS[unit]}"


def seconds_text(seconds: float) -> str:
    """A time, to three digits, in a suitable unit from microseconds to seconds.  Local.

    >>> seconds_text(9.994e-6), seconds_text(45.67e-6), seconds_text(999.6e-6), seconds_text(1234.5), seconds_text(0)
    ('9.99 us', '45.7 us', '1.00 ms', '1234 s', '0 s')
    """
    if seconds == 0:
        return "0 s"
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if abs(factor * seconds) < 999.5:
            return _three_digits(factor * seconds, unit)
    return _three_digits(seconds, "s")


def _three_digits(value: float, unit: str) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f} {unit}"


def count_text(n: int, noun: str) -> str:
    """A number of things, with the noun in the singular or the plural.  Local.

    >>> count_text(1, "block"), count_text(2500, "block")
    ('1 block', '2,500 blocks')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def printable(text: str, keep: str = "") -> str:
    """``text`` with escapes in place of what a terminal obeys or cannot show, but for the characters of ``keep``.

    Local.  Names and texts of files may hold such characters, and names that are not UTF-8 halves of surrogate pairs.

    >>> printable("u\\x1b[31m\\n"), printable("two\\nlines", keep="\\n")
    ('u\\\\x1b[31m\\\\n', 'two\\nlines')
    """
    if text.isprintable():
        return text
    letters = [each if each.isprintable() or each in keep else f"{each!a}"[1:-1] for each in text]
    return "".join(letters)


def aligned(rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """The lines of a table whose columns are as wide as their widest cell, two spaces apart.

    Local.  Columns in ``left`` are aligned to the left, all others to the right.

    >>> print(*aligned([("rank", "bytes"), ("0", "1024")]), sep="\\n")
    rank  bytes
    0      1024
    """
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(_padded(row, widths, left)).rstrip() for row in table]


def _padded(row: Sequence[str], widths: Sequence[int], left: Collection[int]) -> list[str]:
    return [cell.ljust(width) if n in left else cell.rjust(width) for n, (cell, width) in enumerate(zip(row, widths))]


def spans(ranks: Sequence[int]) -> str:
    """Format ascending ranks, with runs given by their ends.  Local.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def told_apart(one: object, other: object) -> tuple[str, str]:
    """Two things that are not equal as texts that are not: short ones, or where these are alike full ones.  Local.

    >>> told_apart(1, "2"), told_apart(1, "1")
    (('1', '2'), ('1', "'1'"))
    """
    texts = str(one), str(other)
    return texts if texts[0] != texts[1] else (repr(one), repr(other))
