"""Messages of lifelines as bytes, and back: JSON, and a closed table of classes, whose fields are checked for types.

A message is ``[class, field, ...]``.  Nothing in it names anything but a class of `_MESSAGES` and, where an operation
was cut off, one of the errors that processes may name to one another.  The members of groups, and their counts, are
told as runs of numbers: at the end of a program every process reads as many messages as there are processes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from spmd_grid.errors import NAMED_ERRORS, CutOffError, SpmdError, TransportError
from spmd_grid.transport.mpi.liveness.departure import Departure
from spmd_grid.transport.mpi.liveness.hang_watch import Report
from spmd_grid.transport.mpi.liveness.host_watch import HostAnswer, HostCall
from spmd_grid.transport.mpi.liveness.standstill import Answer, Chain, Question, StandstillMessage

__all__ = ["CutOff", "CutOffAnswer", "Message", "bytes_of", "message_of"]

_MOST_BYTES = 64 << 20  # ten thousand processes with a hundred groups of all, and no two counts alike, take less
_PLAIN = str, int, float, bool


@dataclass
class CutOff:
    """The message that refuses every later operation of this program, with the reason and the class of errors."""

    text: str
    kind: type[SpmdError] = CutOffError


@dataclass
class CutOffAnswer:
    """The answer to `CutOff`: no operation is under way here."""


Message: TypeAlias = Report | CutOff | CutOffAnswer | Departure | HostCall | HostAnswer | StandstillMessage

_MESSAGES = Report, CutOff, CutOffAnswer, Departure, HostCall, HostAnswer, Question, Answer, Chain
_BY_NAME: dict[str, type] = {each.__name__: each for each in _MESSAGES}


def bytes_of(message: Message) -> bytes:
    """The bytes of a message.  Local."""
    kind = _BY_NAME[type(message).__name__]
    return json.dumps([kind.__name__, *_told(message, kind)], separators=(",", ":")).encode()


def message_of(data: bytes, source: int, size: int) -> Message:
    """The message in the bytes that process ``source`` has sent, of a job of this size.  Local.

    Raises TransportError where there is none.
    """
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has {len(data)} bytes; at most {_MOST_BYTES} are read")
        name, *found = json.loads(data)
        message: Message = _value(found, _BY_NAME[name], size)
        _check(message)
        return message
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise TransportError(
            f"rank {source} has sent {data[:80]!r}, which is no message between processes of one version of this"
            f" package: {reason[:200]}"
        ) from None


@cache
def _fields(kind: type) -> list[tuple[str, Any]]:
    """The names and types of the fields of a class."""
    types = get_type_hints(kind)
    return [(each.name, types[each.name]) for each in fields(kind)]


def _told(value: Any, kind: Any) -> Any:
    """The form in JSON of a value of a type, which is one of those that fields of messages have."""
    if kind in _PLAIN:
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(kind, type) and is_dataclass(kind):
        return [_told(getattr(value, name), of) for name, of in _fields(kind)]
    origin, of = get_origin(kind), get_args(kind)
    if origin is type:
        if value not in NAMED_ERRORS.values():
            raise TypeError(f"{value!r} cannot be told to other processes")
        return value.__name__
    if origin is dict:
        return [[_told(key, of[0]), _told(each, of[1])] for key, each in value.items()]
    if origin is tuple and of[-1] is not Ellipsis:
        return [_told(each, one) for each, one in zip(value, of, strict=True)]
    return _runs(tuple(value)) if of[0] is int else [_told(each, of[0]) for each in value]


def _value(found: Any, kind: Any, size: int) -> Any:
    """The value of this type that `_told` has told.  Raises ValueError and the like for anything else."""
    if kind is float and type(found) is int:
        return float(found)
    if kind in _PLAIN:
        if type(found) is not kind:
            raise ValueError(f"{str(found)[:80]!r} is no {kind.__name__}")
        return found
    origin, of = get_origin(kind), get_args(kind)
    if origin is type:
        return NAMED_ERRORS[found]
    if type(found) is not list:
        raise ValueError(f"{str(found)[:80]!r} is no list")
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(*[_value(each, one, size) for each, (_, one) in zip(found, _fields(kind), strict=True)])
    if origin is dict:
        return {_value(key, of[0], size): _value(each, of[1], size) for key, each in found}
    if origin is tuple and of[-1] is not Ellipsis:
        return tuple([_value(each, one, size) for each, one in zip(found, of, strict=True)])
    if of[0] is not int:
        return origin([_value(each, of[0], size) for each in found])
    if not set(map(type, found)) <= {int} or len(found) % 3 or min(found[2::3], default=1) < 1:
        raise ValueError(f"{str(found)[:80]} are no runs of numbers")
    if sum(found[2::3]) > size:
        raise ValueError(f"{sum(found[2::3])} numbers for members of a group, of {size} processes")
    return origin(_numbers(tuple(found)))


@lru_cache(256)  # most are groups, which come again in one message, and in those of all processes
def _runs(numbers: tuple[int, ...]) -> list[int]:
    """Runs of numbers, each as its first one, the difference of neighbours, and their number.

    >>> _runs((0, 4, 8, 7, 7)), _numbers((0, 4, 3, 7, 0, 2))
    ([0, 4, 3, 7, 0, 2], (0, 4, 8, 7, 7))
    """
    numbers, found, at = tuple(map(int, numbers)), [], 0
    while at < len(numbers):
        step, end = numbers[min(at + 1, len(numbers) - 1)] - numbers[at], at + 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        found += [numbers[at], step, end - at]
        at = end
    return found


@lru_cache(256)
def _numbers(runs: tuple[int, ...]) -> tuple[int, ...]:
    found: list[int] = []
    for first, step, count in zip(runs[::3], runs[1::3], runs[2::3], strict=True):
        found += range(first, first + step * count, step) if step else [first] * count
    return tuple(found)


def _check(message: Message) -> None:
    """Raises ValueError for what the types of fields do not say."""
    if isinstance(message, Chain) and not message.links:
        raise ValueError("a chain without links")
    stock = message.stock if isinstance(message, Answer) else message
    if isinstance(stock, Departure):
        for counts in (stock.sent, stock.received, stock.asked):
            if any(len(members) != len(each) for members, each in counts.items()):
                raise ValueError("a group has another number of counts than of members")
