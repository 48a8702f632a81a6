"""Numbers from the command line and from the environment.

Only plain digits are taken: no digits of other alphabets, no underscores, and at most 30 characters.
"""

from __future__ import annotations

from math import inf

__all__ = ["MOST_SECONDS", "byte_count", "is_natural", "real_number", "seconds", "shown", "whole_number"]

MOST_SECONDS = 1e9  # above 30 years

_MOST_DIGITS, _MOST_SHOWN = 30, 40
_UNITS = {"": 1, "b": 1, **{f"{letter}ib": 1024**n for n, letter in enumerate("kmgtp", 1)}}
_UNITS |= {f"{letter}b": 1000**n for n, letter in enumerate("kmgtp", 1)}


def whole_number(text: str, least: float = -inf, most: float = inf) -> int:
    """Parse ``text`` as a whole number from ``least`` to ``most``.  Local.  Raises ValueError with the rule.

    >>> whole_number(" 12 ", 1)
    12
    """
    word = text.strip()
    if is_natural(word.removeprefix("-")) and least <= int(word) <= most:
        return int(word)
    bounds = f" from {least:g}" * (least > -inf) + (f" to {most}" if most < inf else "")
    raise ValueError(f"{shown(text)}; it must be a whole number{bounds}")


def is_natural(text: str) -> bool:
    """Whether ``text`` consists of plain digits.  Local.

    >>> is_natural("12"), is_natural("²"), is_natural("")
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def real_number(text: str) -> float:
    """Parse ``text`` as a finite number, such as 1.5 or 2e3.  Local.  Raises ValueError with the rule."""
    word = text.strip()
    if word.isascii() and "_" not in word and len(word) <= _MOST_DIGITS:
        try:
            number = float(word)
        except ValueError:
            number = inf
        if abs(number) < inf:
            return number
    raise ValueError(f"{shown(text)}; it must be a number, such as 1.5")


def byte_count(text: str) -> int:
    """Parse ``text`` as a number of bytes, such as 2GiB or 500MB.  Local.  Raises ValueError with the rule.

    >>> byte_count("1.5 KiB"), byte_count("200")
    (1536, 200)
    """
    number = text.strip().rstrip("aAbBgGiIkKmMpPtT ")
    unit = text.strip()[len(number) :].strip().lower()
    try:
        return int(real_number(number) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{text!r}; it must be bytes, such as 2GiB or 500MB") from None


def seconds(text: str) -> float:
    """Parse ``text`` as a number of seconds above 0.  Local.  Raises ValueError with the rule."""
    try:
        number = real_number(text)
    except ValueError:
        number = 0.0
    if 0 < number < MOST_SECONDS:
        return number
    raise ValueError(f"{shown(text)}; it must be seconds above 0 and below {MOST_SECONDS:g}")


def shown(text: str) -> str:
    """``text`` in quotation marks, cut if it is long."""
    return repr(text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "...")
