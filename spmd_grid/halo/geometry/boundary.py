"""Boundary rules: the values of halo cells outside the domain, some of them copies of cells of the domain.

Names follow numpy.pad.  In scipy.ndimage "reflect" is called mirror, and "symmetric" is called reflect.

    cells of a domain of 4    -3 -2 -1 | 0 1 2 3 | 4 5 6
    "edge"                     0  0  0 |         | 3 3 3
    "reflect", "mirror"        3  2  1 |         | 2 1 0
    "symmetric"                2  1  0 |         | 3 2 1
    periodic                   1  2  3 |         | 0 1 2

A number is the value of all these cells, a function is called to set them, and "leave" leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from spmd_grid.errors import ShapeError, ShardingError

__all__ = [
    "EDGE",
    "LEAVE",
    "REFLECT",
    "SYMMETRIC",
    "WRAP",
    "BoundaryLike",
    "PeriodicLike",
    "Rule",
    "as_boundary",
    "as_periodic",
    "is_constant",
    "is_function",
    "is_map",
    "mapped",
]

Rule: TypeAlias = str | complex | np.generic | Callable

# One rule or bool, or a list with an entry per tensor dimension: what users pass.
BoundaryLike: TypeAlias = Rule | Sequence[Rule | Sequence[Rule]]
PeriodicLike: TypeAlias = bool | Sequence[bool] | np.ndarray

LEAVE, EDGE, REFLECT, SYMMETRIC = "leave", "edge", "reflect", "symmetric"
WRAP = "wrap"  # the rule of periodic dimensions; never part of a boundary

_NAMES = {LEAVE: LEAVE, EDGE: EDGE, REFLECT: REFLECT, "mirror": REFLECT, SYMMETRIC: SYMMETRIC}
_ALLOWED = f"one of {', '.join(map(repr, _NAMES))}, a number, or a function"


def as_boundary(boundary: BoundaryLike, ndim: int) -> tuple[tuple[Rule, Rule], ...]:
    """The (low, high) rules of each of ``ndim`` tensor dimensions.

    Local.  ``boundary``: one rule for all sides, or a list with an entry per tensor dimension, each a rule or a
    (low, high) pair of rules.  Raises ShardingError.

    >>> as_boundary("mirror", 1), as_boundary(["edge", ("leave", 0.5)], 2)
    ((('reflect', 'reflect'),), (('edge', 'edge'), ('leave', 0.5)))
    """
    row = _row(boundary)
    if row is None:
        row = (boundary,) * ndim
        _rule(boundary, boundary)  # refused where there are no dimensions, too
    if len(row) != ndim:
        raise ShardingError(
            f"boundary is {boundary!r}; it must be one rule, or a list of {ndim} entries, one per tensor dimension"
        )
    return tuple([_sides(entry, boundary) for entry in row])


def as_periodic(periodic: PeriodicLike, ndim: int, *, at_least: bool = False) -> tuple[bool, ...]:
    """Whether each of ``ndim`` tensor dimensions is periodic, from one bool or a list with a bool per dimension.

    Local.  ``at_least``: there may be more dimensions than ``ndim``, and a longer list is taken.  Raises ShapeError.

    >>> as_periodic(True, 2), as_periodic([True, False], 1, at_least=True)
    ((True, True), (True, False))
    """
    row = (periodic,) * ndim if isinstance(periodic, bool | np.bool_) else _row(periodic)
    if row is None or not (len(row) == ndim or (at_least and len(row) > ndim)) or not all(map(_is_bool, row)):
        raise ShapeError(
            f"periodic is {periodic!r}; it must be one bool, or one per tensor dimension, which are"
            f" {'at least ' if at_least else ''}{ndim}"
        )
    return tuple(map(bool, row))


def is_map(rule: Rule) -> bool:
    """Whether ``rule`` copies cells of the domain.  Local."""
    return isinstance(rule, str) and rule != LEAVE


def is_constant(rule: Rule) -> bool:
    """Whether ``rule`` is a number to be put.  Local."""
    return isinstance(rule, bool | int | float | complex | np.generic) and not isinstance(rule, np.flexible)


def is_function(rule: Rule) -> bool:
    """Whether ``rule`` is a function to be called.  Local."""
    return callable(rule)


def mapped(rule: str, begin: int, end: int, extent: int) -> tuple[int, int, int]:
    """``(source, step, count)``: cells ``begin + i`` of a line are copies of ``source + i * step`` for i < count.

    Local.  The count is the largest below ``end - begin`` with one step; all sources lie in the domain
    of ``extent`` cells, which must not be empty.

    >>> mapped("reflect", -5, 0, 4), mapped("reflect", -3, 0, 4), mapped("wrap", -3, 0, 4), mapped("edge", 4, 9, 4)
    ((1, 1, 3), (3, -1, 3), (1, 1, 3), (3, 0, 5))
    """
    if rule == WRAP:
        source = begin % extent
        return source, 1, min(extent - source, end - begin)
    if rule == EDGE or extent == 1:
        return min(max(begin, 0), extent - 1), 0, end - begin
    # Both go up and down the domain; a turn of "reflect" counts its cell once, a turn of "symmetric" twice.
    once = rule == REFLECT
    period = 2 * extent - (2 if once else 0)
    at = begin % period
    if at < extent - once:
        return at, 1, min(extent - at, end - begin)
    source = period - at - (not once)
    return source, -1, min(source + 1, end - begin)


def _row(values: object) -> tuple | None:
    """The entries of a list, a tuple or a row of an array; None for anything else."""
    if isinstance(values, list | tuple):
        return tuple(values)
    return tuple(values) if isinstance(values, np.ndarray) and values.ndim == 1 else None


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _sides(entry: Any, boundary: BoundaryLike) -> tuple[Rule, Rule]:
    sides = _row(entry)
    if sides is None:
        sides = (entry, entry)
    if len(sides) != 2:
        raise ShardingError(
            f"boundary is {boundary!r}; its entry {entry!r} must be one rule, or a (low, high) pair of rules"
        )
    low, high = sides
    return _rule(low, boundary), _rule(high, boundary)


def _rule(rule: Any, boundary: BoundaryLike) -> Rule:
    if isinstance(rule, str) and rule in _NAMES:
        return _NAMES[rule]
    if is_constant(rule) or is_function(rule):
        return rule
    found = "" if rule is boundary else f", in which {rule!r} is no rule"
    raise ShardingError(f"boundary is {boundary!r}{found}; a rule is {_ALLOWED}")
