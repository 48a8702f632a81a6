"""Calls of array functions: looked up in the table, planned once for arguments that look the same, and run."""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from typing import Any, NoReturn

import numpy as np

from spmd_grid.compute.contractions.course import ContractionCourse, plan_contraction
from spmd_grid.compute.course.apply import Course, plan_course
from spmd_grid.compute.course.output import check_out_dtype, check_sharded_out, write_out
from spmd_grid.compute.plain_operands import note_operands
from spmd_grid.compute.splits import ArrayOnGrid, is_sharded, reference_of
from spmd_grid.compute.views import attach, detach
from spmd_grid.errors import ArgumentError, AxisError, CellIndexError, DTypeError, OutputError, SpmdError
from spmd_grid.functions.interface import Application
from spmd_grid.functions.linear.contractions import CONTRACTIONS
from spmd_grid.functions.table import Entry, no_rule
from spmd_grid.functions.ways import READ_ONLY, VIEWS, read_only_way
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = ["call_alone", "call_composite", "call_rule", "key_of"]

_MOST_KEPT = 1024
# What rules raise: that there is no rule for a call, what numpy would raise for an argument or an index, and that an
# argument has no shape or dtype.
_OF_RULES = NotImplementedError, ValueError, IndexError, AttributeError
# The classes of arguments, and the names of others, with which composites were called without ``out``.
_PLAIN_FORMS: set[tuple[Any, ...]] = set()
_Position = tuple[Any, Any]  # the number or name of an argument and None, or None and the operand itself


class _KeptCall:
    """The course of a call, and the positions of its operands among the arguments.

    ``plain``: the numbers of operands of ``name`` that are plain arrays; of such calls every 2^k-th is noted.
    """

    __slots__ = ("_calls", "_course", "_grid", "_name", "_plain", "_positions")

    def __init__(
        self,
        course: Course | ContractionCourse,
        positions: list[_Position],
        grid: ProcessGrid,
        name: str,
        plain: list[int],
    ):
        self._course, self._positions = course, positions
        self._grid, self._name, self._plain = grid, name, plain
        self._calls = 1

    def run_alone(self, array: ArrayOnGrid) -> Any:
        """The results for an array that looks the same, and is the only argument."""
        course = self._course
        return course.run_alone(array) if type(course) is Course else course.run((array,))

    def run(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The results for other arguments that look the same."""
        operands = [
            args[at] if type(at) is int else number if at is None else options[at] for at, number in self._positions
        ]
        if self._plain:
            self._calls += 1
            if not self._calls & (self._calls - 1):
                note_operands(self._grid, self._name, *[operands[i] for i in self._plain])
        return self._course.run(operands)


def call_alone(function: Callable[..., Any], array: ArrayOnGrid) -> Any:
    """``function(array)``, at once where it was called before.  Collective over the array's grid."""
    grid = array.grid
    if grid.process.recorder is None:  # else arguments may have to be compared
        found = grid.functions.get((function, (array.layout, array.dtype), ()))  # as `key_of` has one argument
        if found is not None:
            return found.run_alone(array)
    return function(array)


def call_rule(
    array: ArrayOnGrid, function: Callable[..., Any], entry: Entry, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """``function(*args, **options)`` by its rule.  Collective over the array's grid."""
    kept = array.grid.functions
    key = key_of(array, function, args, options)
    if key is not None:
        found = kept.get(key)
        if found is not None:
            return found.run(args, options)
    name = function.__name__
    bound = entry.bind(name, args, options)
    try:
        application = entry.call(*bound.args, **bound.kwargs)
    except _OF_RULES as error:
        _raise_ours(name, error, (*args, *options.values()))
    out = _out_of(bound)
    if not isinstance(application, Application):  # the result, by other functions
        return _new(application, args) if out is None else _written(name, application, out[0])
    _refuse_hidden_arrays(name, application, bound, out)
    course: Course | ContractionCourse
    if function in CONTRACTIONS:
        requested, limit = (bound.arguments.get(each) for each in ("out_sharding", "memory_limit"))
        course = plan_contraction(application, out, requested, limit)
    else:
        reference = None if out is None else _reference_beside(application, args, out)
        course = plan_course(application, out, reference)
    plain = [i for i, operand in enumerate(application.operands) if not is_sharded(operand)]
    if plain:
        note_operands(array.grid, name, *[application.operands[i] for i in plain])
    if key is not None and out is None:
        positions = _positions_of(application, args, options)
        if positions is not None:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            arrays = [i for i in plain if isinstance(application.operands[i], np.ndarray)]
            kept[key] = _KeptCall(course, positions, array.grid, name, arrays)
    return course.run(application.operands, out)


def call_composite(name: str, entry: Entry, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function made of others.  Collective over the grid of its arrays."""
    out = None
    form = entry.call, *map(type, args), *options, *map(type, options.values())
    if form not in _PLAIN_FORMS:
        bound = entry.bind(name, args, options)
        if "out" in bound.arguments:
            out = bound.arguments.pop("out")
            args, options = bound.args, bound.kwargs
        elif list not in form and tuple not in form:  # which may contain anything
            _PLAIN_FORMS.add(form)
    try:
        result = entry.call(*args, **options)
    except _OF_RULES as error:
        _raise_ours(name, error, (*args, *options.values()))
    if out is not None:
        return _written(name, result, out)
    if name in READ_ONLY:
        bound = entry.bind(name, args, options)
        source = next(iter(bound.arguments.values()))
        if is_sharded(source) and source.ndim > 1:
            return attach(detach(result), source, (read_only_way(entry, bound),), is_read_only=True)
    return result if name in VIEWS else _new(result, args)


def _new(result: Any, args: tuple[Any, ...]) -> Any:
    """The result of a function that gives new arrays: no views of its arguments, or of arrays that it has made."""
    if isinstance(result, tuple | list):
        for each in result:
            _new(each, args)
    elif is_sharded(result) and result._view is not None and not _among(result, args):
        detach(result)
    return result


def _raise_ours(name: str, error: Exception, given: tuple[Any, ...] = ()) -> NoReturn:
    """Raises the error that users see where a rule, or numpy in it, has raised ``error``; ``given``: the arguments."""
    if isinstance(error, SpmdError):
        raise error
    if isinstance(error, NotImplementedError):
        raise no_rule(str(error)) from None
    if isinstance(error, AttributeError):
        entries = [each for x in given if isinstance(x, list | tuple) for each in x]
        if is_sharded(error.obj) or not any(error.obj is x for x in (*given, *entries)):
            raise error
        raise DTypeError(f"{name}: an argument is {error.obj!r}; it must be an array") from error
    kinds: list[tuple[type[Exception], type[SpmdError]]] = [  # the first that fits
        (np.exceptions.AxisError, AxisError),
        (ValueError, ArgumentError),
        (IndexError, CellIndexError),
    ]
    kind = next(ours for theirs, ours in kinds if isinstance(error, theirs))
    raise kind(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error


def _written(name: str, result: Any, out: Any) -> Any:
    """``out`` with the cells of the result of a composite."""
    if is_sharded(result):
        check_sharded_out(name, out, result.layout, result.grid)
        found = result.stored_core
    else:
        found = np.asarray(result)
        if not is_sharded(out) or out.shape != found.shape:
            raise OutputError(f"{name}: out must be a ShardedArray of shape {found.shape}, as the result is")
    check_out_dtype(name, out, found.dtype)
    return write_out([found], [out])


def _out_of(bound: BoundArguments) -> tuple[Any, ...] | None:
    out = bound.arguments.get("out")
    return None if out is None else out if isinstance(out, tuple) else (out,)


def _reference_beside(application: Application, args: tuple[Any, ...], out: tuple[Any, ...]) -> ArrayOnGrid | None:
    """The operand whose layout decides where there is an ``out``: one that is overwritten, else the largest other."""
    for operand in application.operands:
        if is_sharded(operand) and _among(operand, out) and _among(operand, args):
            return operand
    others = [x for x in application.operands if is_sharded(x) and not _among(x, out)]
    return reference_of(others) if others else None


def _among(x: object, others: tuple[Any, ...]) -> bool:
    return any(x is each for each in others)


def _refuse_hidden_arrays(
    name: str, application: Application, bound: BoundArguments, out: tuple[Any, ...] | None
) -> None:
    """Refuses sharded arrays as arguments that must be plain."""
    known = {id(x) for x in (*application.operands, *(out or ()))}
    for parameter, value in bound.arguments.items():
        values = value if isinstance(value, tuple | list) else (value,)
        if any(is_sharded(x) and id(x) not in known for x in values):
            raise DTypeError(f"{name}: {parameter} is a ShardedArray; it must be equal on all processes, and plain")


# -- calls that look the same --------------------------------------------------------------------------------------


def key_of(
    array: ArrayOnGrid, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Equal for calls that take the same course; None for arguments that are not compared."""
    kind, grid = type(array), array.grid
    key: list[Any] = [function]
    for x in args:
        part = _part_of(x, kind, grid)
        if part is None:
            return None
        key.append(part)
    for name, x in options.items():
        part = _part_of(x, kind, grid)
        if part is None:
            return None
        key += name, part
    return (*key, _repeats((*args, *options.values()), kind))


def _repeats(values: tuple[Any, ...], kind: type) -> tuple[int, ...]:
    """For each array that occurs more than once, its positions: they tell ``f(a, a)`` from ``f(a, b)``."""
    arrays = [id(x) if type(x) is kind or type(x) is np.ndarray else None for x in values]
    return tuple([i for i, x in enumerate(arrays) if x is not None and arrays.count(x) > 1])


def _part_of(x: Any, kind: type, grid: ProcessGrid) -> Any:
    """The part of an argument in the key: of an array its layout and dtype, else its type and value."""
    found = type(x)
    if found is kind:
        return (x.layout, x.dtype) if x.grid is grid else None
    if found is int or found is bool or found is str or x is None:
        return found, x
    if found is tuple or found is list:
        try:
            return _numbers_of(x)
        except RecursionError:  # a list that holds itself
            return None
    if found is float or found is complex or isinstance(x, np.generic):
        return found, repr(x)  # 0.0 and -0.0 are equal, and differ
    if found is np.ndarray:
        return found, x.shape, x.dtype
    return x if isinstance(x, np.dtype | type | Sharding) else None


def _numbers_of(x: list[Any] | tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A list or tuple of whole numbers, and of lists and tuples of them, as a key; None for all else."""
    parts = [each if type(each) is int else _numbers_of(each) if type(each) in (list, tuple) else None for each in x]
    return None if None in parts else (type(x), *parts)


def _positions_of(application: Application, args: tuple[Any, ...], options: dict[str, Any]) -> list[_Position] | None:
    """The positions of the operands; None where an array is not found, or a plain one is no operand."""
    arguments: dict[Any, Any] = {**dict(enumerate(args)), **options}
    positions: list[_Position] = []
    for operand in application.operands:
        at = next((at for at, x in arguments.items() if x is operand), None)
        if at is None and (is_sharded(operand) or isinstance(operand, np.ndarray)):
            return None
        positions.append((at, operand if at is None else None))
    used = {at for at, _ in positions}
    if any(isinstance(x, np.ndarray) and at not in used for at, x in arguments.items()):
        return None
    return positions
