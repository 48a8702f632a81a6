"""Names of values: those of the variables of the user's function that they are assigned to."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from spmd_grid.program.ir import CallSite, Operation
from spmd_grid.python_text import statements_of

__all__ = ["name_by_variables"]


class _Assignment(NamedTuple):
    first: int
    last: int
    variable: str


def name_by_variables(operations: Sequence[Operation], used: Iterable[str]) -> None:
    """Name the last value that a statement ``h = ...`` computes ``h``, and later ones ``h_1``, ``h_2``.

    Local.  Values of other statements, and of functions without a source, keep their numbers.
    """
    taken = set(used)
    wanted = [_variable(operation.site) for operation in operations]
    for operation, own, following in zip(operations, wanted, [*wanted[1:], None]):
        if own is None or own == following or len(operation.results) > 1:
            continue
        name, number = own.variable, 0
        while name in taken:
            number += 1
            name = f"{own.variable}_{number}"
        taken.add(name)
        (value,) = operation.results
        object.__setattr__(value, "name", name)  # the program is not handed out yet


def _variable(site: CallSite | None) -> _Assignment | None:
    """The assignment to one variable that a line belongs to."""
    if site is None or site.function == "<lambda>":  # a statement around it assigns something else
        return None
    found = [each for each in _assignments(site.file) if each.first <= site.line <= each.last]
    return min(found, key=lambda each: each.last - each.first, default=None)


def _assignments(file: str) -> list[_Assignment]:
    return _parsed("".join(linecache.getlines(file)))


@lru_cache(16)
def _parsed(source: str) -> list[_Assignment]:
    try:
        tree = statements_of(source)
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.AnnAssign | ast.AugAssign):
            target = node.target
        if isinstance(target, ast.Name) and isinstance(node, ast.stmt):
            found.append(_Assignment(node.lineno, node.end_lineno or node.lineno, target.id))
    return found
