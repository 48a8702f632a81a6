"""Subscripts of einsum as numpy takes them, brought to one form: letters, an output, no ellipsis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from string import ascii_letters
from typing import Any

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.functions.interface import shape_of
from spmd_grid.typing import Shape

__all__ = ["Step", "parse", "steps_by_pairs"]

Step = tuple[tuple[int, ...], tuple[str, ...], str]


def parse(arguments: Sequence[Any]) -> tuple[tuple[str, ...], str, list[Any]]:
    """(the letters of each operand, those of the output, the operands) of a call of einsum.  Raises ShapeError.

    A letter may occur twice in an operand: then its diagonal is meant.

    >>> parse(["...j,j", np.ones((2, 3, 4)), np.ones(4)])[:2]
    (('abj', 'j'), 'ab')
    >>> parse([np.ones((2, 3)), [0, 5], np.ones(3), [5]])[:2]
    (('AF', 'F'), 'A')
    """
    if arguments and isinstance(arguments[0], str):
        text, operands = arguments[0], list(arguments[1:])
    else:
        text, operands = _as_text(arguments)
    inputs, output = _expanded(text, tuple([shape_of(operand) for operand in operands]))
    return inputs, output, operands


def _as_text(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """The subscripts of ``operand, list, operand, list, ..., list of the output`` as text."""
    pairs = len(arguments) // 2
    parts = [_letters_of(arguments[2 * i + 1]) for i in range(pairs)]
    text = ",".join(parts)
    if len(arguments) % 2:
        text += "->" + _letters_of(arguments[-1])
    return text, [arguments[2 * i] for i in range(pairs)]


def _letters_of(numbers: Any) -> str:
    try:
        return "".join("..." if each is Ellipsis else sorted(ascii_letters)[index(each)] for each in numbers)
    except (TypeError, IndexError):
        raise ShapeError(f"einsum: subscripts {numbers!r}; they must list numbers from 0 to 51, or be a text") from None


@lru_cache(1024)
def _expanded(text: str, shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], str]:
    given, arrow, output = text.replace(" ", "").partition("->")
    parts = given.split(",")
    if len(parts) != len(shapes):
        raise ShapeError(f"einsum: {text!r} is for {len(parts)} operands; there are {len(shapes)}")
    for part in (*parts, output):
        rest = part.replace("...", "", 1)
        if not all(letter in ascii_letters for letter in rest):
            raise ShapeError(f"einsum: {text!r}; subscripts are letters and one ellipsis for each operand")
    unused = [letter for letter in ascii_letters if letter not in text]
    hidden = [len(shape) - len(part) + 3 if "..." in part else 0 for part, shape in zip(parts, shapes)]
    for part, shape, n in zip(parts, shapes, hidden):
        if n < 0 or ("..." not in part and len(part) != len(shape)):
            raise ShapeError(
                f"einsum: operand of shape {shape} has subscripts {part!r}; it must have one per dimension"
            )
    dots = "".join(unused[: max(hidden, default=0)])
    inputs = tuple([part.replace("...", dots[len(dots) - n :]) for part, n in zip(parts, hidden)])
    if arrow:
        if "..." not in output and dots:
            raise ShapeError(
                f"einsum: {text!r}; the output must have the ellipsis, since operands have dimensions for it"
            )
        output = output.replace("...", dots)
    else:
        letters = sorted(set(given) - {",", "."})
        output = dots + "".join(letter for letter in letters if given.count(letter) == 1)
    if len(set(output)) != len(output) or not set(output) <= set("".join(inputs)):
        raise ShapeError(f"einsum: {text!r} has result {output!r}; its letters must differ, and be of operands")
    return inputs, output


@lru_cache(1024)
def steps_by_pairs(inputs: tuple[str, ...], output: str, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
    """The contraction by pairs with the fewest multiplications: (positions of the operands, their letters, the result).

    Local.  Operands of a step leave the list, and its result is put at the end, as by np.einsum_path, which finds the
    order: the best one for up to four operands, else a greedy one.
    """
    if len(inputs) <= 2:
        return ((tuple(range(len(inputs))), inputs, output),)
    dummies = [np.broadcast_to(0.0, shape) for shape in shapes]
    how = "optimal" if len(inputs) <= 4 else "greedy"
    path = np.einsum_path(f"{','.join(inputs)}->{output}", *dummies, optimize=how)[0][1:]
    left, steps = list(inputs), []
    for group in path:
        positions = sorted(group, reverse=True)
        while positions:
            pair = (positions.pop(0), positions.pop(0)) if len(positions) > 1 else (positions.pop(0),)
            taken = [left.pop(position) for position in pair]
            later = set(output).union(*left) if left else set(output)
            letters = "".join(dict.fromkeys(letter for part in taken for letter in part if letter in later))
            result = letters if left else output
            steps.append((pair, tuple(taken), result))
            left.append(result)
            if positions:
                positions.insert(0, len(left) - 1)
    return tuple(steps)
