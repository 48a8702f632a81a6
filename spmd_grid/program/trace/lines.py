"""Errors of a function that is being traced get its line, and the values that the call was about, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from traceback import walk_tb
from typing import Any

from spmd_grid.program.ir import CallSite, Value
from spmd_grid.program.trace.tracer import is_users, traced_site

__all__ = ["at_line", "name_line"]


def at_line(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method of traced arrays: an error inside names the line of the user's function.

    Functions made of others call such methods again; the outermost adds the line.
    """

    @wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        tracer = self.tracer
        tracer.depth += 1
        try:
            return method(self, *args, **options)
        except Exception as error:
            if tracer.depth == 1:
                name_line(error, [self, args, options])
            raise
        finally:
            tracer.depth -= 1

    return called


@contextmanager
def named_lines() -> Iterator[None]:
    """Add the line of the user's function to errors that come from functions of numpy, or of this package.

    Errors of the user's own statements stay as they are.
    """
    try:
        yield
    except Exception as error:
        trail = list(walk_tb(error.__traceback__))
        if not is_users(trail[-1][0]):
            frame, line = next((each for each in reversed(trail) if is_users(each[0])), (None, 0))
            if frame is not None:
                _add(error, [], CallSite(frame.f_code.co_filename, line, frame.f_code.co_name))
        raise


def name_line(error: Exception, arguments: Any) -> None:
    """Add the line of the user's function to an error, and the values among the ``arguments`` of the call."""
    _add(error, list(dict.fromkeys(repr(value) for value in _values(arguments))), traced_site())


def _add(error: Exception, values: Sequence[str], site: CallSite | None) -> None:
    said = str(error)
    parts = [f"of {' and '.join(values[:3])}"] if values and not any(value in said for value in values) else []
    parts += [f"at {site}"] if site is not None and str(site) not in said else []
    where = ", ".join(parts)
    if not where:
        return
    if len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]} ({where})",)
    else:
        error.add_note(where)


def _values(x: Any) -> Iterator[Value]:
    """The values of the program among arguments."""
    found = getattr(x, "value", None)
    if isinstance(found, Value):
        yield found
    elif isinstance(x, tuple | list):
        for each in x:
            yield from _values(each)
    elif isinstance(x, dict):
        yield from _values(list(x.values()))
