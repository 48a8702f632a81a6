"""Operations on arrays without cells: while a function is being traced, shapes are found and nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["NoCells", "answer_of"]


class NoCells(BaseException):
    """Raised by an array that stands for blocks of a traced function, where an operation asks for its cells.

    It is no error of an operation: none of the other members must learn of it.
    """


def answer_of(x: Any, grid: Any) -> Callable[..., Any] | None:
    """The function that answers operations on an array without cells, or its grid; None for real arrays.  Local.

    It takes the operation's name, x, grid axes, the other arguments, and ``out``.
    """
    found: Callable[..., Any] | None = getattr(grid, "answers_operations", None)
    return getattr(x, "answers_operations", None) if found is None else found
