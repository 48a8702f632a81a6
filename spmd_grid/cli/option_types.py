"""The types of options: each refuses invalid text with a message that names the rule."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf
from typing import TypeVar

from spmd_grid import numerals

__all__ = ["MOST_PROCESSES", "MOST_ROUNDS", "given", "seconds", "size", "whole"]

MOST_PROCESSES = 1 << 14  # to start on this machine
MOST_ROUNDS = 10**6
Number = TypeVar("Number", int, float)


def whole(least: float = -inf, most: float = inf) -> Callable[[str], int]:
    """The type of an option that is a whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        return _taken(numerals.whole_number, text, least, most)

    return number


def seconds(text: str) -> float:
    """The type of an option that is a time in seconds."""
    return _taken(numerals.seconds, text)


def size(text: str) -> int:
    """The type of an option that is a number of bytes above 0."""
    number: int = _taken(numerals.byte_count, text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; it must be at least one byte")
    return number


def given(text: str) -> str:
    """The type of an option that is a text, which must not be empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r}; it must not be empty")
    return text


def _taken(read: Callable[..., Number], *args: object) -> Number:
    try:
        return read(*args)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
