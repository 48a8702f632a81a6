"""A look at the whole text before it is parsed: strings that end, short numbers, brackets that are not too deep.

xdsl's parser reads by recursion, and matches strings by a pattern that takes time exponential in the length of
one that is not closed.  Both are refused here, with a position.
"""

from __future__ import annotations

import re

from spmd_grid.dialect.syntax.positions import Text, syntax_error

__all__ = ["DEEPEST", "scan"]

DEEPEST = 64  # brackets inside one another
_LONGEST = 40  # digits of a number
_WIDEST = 128  # bits of an integer type

_PART = re.compile(
    r"""
    (?P<comment>//[^\n]*)
  | (?P<string>"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*")
  | (?P<quote>")
  | (?P<arrow>->|>=|<=)
  | (?P<open>[(\[{<])
  | (?P<close>[)\]}>])
  | (?P<name>[%@^#!][\w$.\-]*)
  | (?P<number>\d+)(?=\.|x|\b|[eE])
  | (?P<word>[A-Za-z_][\w$.]*)
    """,
    re.VERBOSE,
)
_INTEGER_TYPE = re.compile(r"(?:x(?:\d+x)*)?[su]?i(\d+)")
_PAIRS = {")": "(", "]": "[", "}": "{"}


def scan(text: Text) -> None:
    """Refuse what the parser could not refuse in time.  DialectSyntaxError with the position."""
    opened: list[tuple[str, int]] = []
    for part in _PART.finditer(text.content):
        kind, found, at = part.lastgroup, part.group(), part.start()
        if kind == "quote":
            raise syntax_error(text, at, "this string is not closed on its line, or holds an unknown escape")
        if kind == "number" and len(found) > _LONGEST:
            raise syntax_error(text, at, f"a number of {len(found)} digits; at most {_LONGEST} are read")
        if kind == "word":
            width = _INTEGER_TYPE.fullmatch(found)
            if width and (len(width[1]) > 4 or int(width[1]) > _WIDEST):
                raise syntax_error(text, at, f"an integer type of more than {_WIDEST} bits")
        if kind == "open":
            opened.append((found, at))
            if len(opened) > DEEPEST:
                raise syntax_error(text, at, f"more than {DEEPEST} brackets inside one another")
        if kind == "close":
            _close(text, opened, found, at)
    unclosed = [entry for entry in opened if entry[0] != "<"]
    if unclosed:
        bracket, at = unclosed[-1]
        raise syntax_error(text, at, f"this {bracket!r} is not closed")


def _close(text: Text, opened: list[tuple[str, int]], found: str, at: int) -> None:
    """Take the bracket that ``found`` closes.  Angle brackets need not pair: some are signs of comparison."""
    if found == ">":
        if opened and opened[-1][0] == "<":
            opened.pop()
        return
    while opened and opened[-1][0] == "<":
        opened.pop()
    if not opened or opened[-1][0] != _PAIRS[found]:
        raise syntax_error(text, at, f"this {found!r} closes no bracket")
    opened.pop()
