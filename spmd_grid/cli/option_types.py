"""The types of options: each refuses what it cannot be in words that name the rule."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf

from spmd_grid import numerals

__all__ = ["MOST_PROCESSES", "MOST_ROUNDS", "given", "seconds", "whole"]

MOST_PROCESSES = 1 << 14  # that a command starts on this machine
MOST_ROUNDS = 10**6


def whole(least: float = -inf, most: float = inf) -> Callable[[str], int]:
    """The type of an option that is a whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        return _taken(numerals.whole_number, text, least, most)

    return number


def seconds(text: str) -> float:
    """The type of an option that is a time."""
    return _taken(numerals.seconds, text)


def given(text: str) -> str:
    """The type of an option that is a text: one that is empty was meant to be something else."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r}; it must not be empty")
    return text


def _taken(read: Callable, *args):
    try:
        return read(*args)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
