"""Python text, parsed by one thread at a time.

Python before 3.11.8 counts the depth of a tree for all threads together: of two ranks on threads that parse at the
same time, one may raise SystemError (https://github.com/python/cpython/issues/106905).
"""

import ast
from threading import Lock
from typing import Any

__all__ = ["expression_of", "literal_of", "statements_of"]

_PARSING = Lock()


def statements_of(text: str) -> ast.Module:
    """The tree of a text of statements.  Local.  Raises SyntaxError and ValueError, as `ast.parse` does."""
    with _PARSING:
        return ast.parse(text)


def expression_of(text: str) -> ast.expr:
    """The tree of one expression.  Local.  Raises SyntaxError and ValueError, as `ast.parse` does."""
    with _PARSING:
        return ast.parse(text.lstrip(" \t"), mode="eval").body


def literal_of(text: str) -> Any:
    """The value of a literal.  Local.  Raises what `ast.literal_eval` does.

    >>> literal_of(" {'shape': (2, 3)}")
    {'shape': (2, 3)}
    """
    return ast.literal_eval(expression_of(text))
