"""Messages of lifelines as bytes, and back: JSON, and a closed table of classes, whose fields are checked for types.

A message is ``[class, field, ...]``.  Nothing in it names anything but a class of `_MESSAGES` and, where an operation
was cut off, one of the errors that processes may name to one another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from spmd_grid.errors import NAMED_ERRORS, CutOffError, SpmdError, TransportError
from spmd_grid.transport.mpi.liveness.departure import Departure
from spmd_grid.transport.mpi.liveness.hang_watch import Report
from spmd_grid.transport.mpi.liveness.host_watch import HostAnswer, HostCall
from spmd_grid.transport.mpi.liveness.standstill import Answer, Chain, Question, StandstillMessage

__all__ = ["CutOff", "CutOffAnswer", "Message", "bytes_of", "message_of"]

_MOST_BYTES = 256 << 20  # the end of one of ten thousand processes with a hundred groups takes a tenth of that
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
    named = [type(message).__name__, *_for_json(message)]
    return json.dumps(named, default=_for_json, separators=(",", ":")).encode()


def message_of(data: bytes, source: int) -> Message:
    """The message in the bytes that process ``source`` has sent.  Local.  Raises TransportError where there is none."""
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has {len(data)} bytes; at most {_MOST_BYTES} are read")
        name, *found = json.loads(data)
        message: Message = _object(found, _BY_NAME[name])
        _check(message)
        return message
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise TransportError(
            f"rank {source} has sent {data[:80]!r}, which is no message between processes of one version of this"
            f" package: {reason[:200]}"
        ) from None


def _for_json(value: Any) -> Any:
    """A form that JSON has of what it knows nothing of: fields and pairs as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        found = [getattr(value, field.name) for field in fields(value)]
        return [list(each.items()) if isinstance(each, dict) else each for each in found]
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, np.generic):
        return value.item()
    if value in NAMED_ERRORS.values():
        return str(value.__name__)
    raise TypeError(f"{value!r} cannot be told to other processes")


_types_of = cache(get_type_hints)


def _object(found: list[Any], kind: type) -> Any:
    """The object of a class of messages that has these fields."""
    types = _types_of(kind)
    return kind(
        *[_value(each, of) for each, of in zip(found, [types[each.name] for each in fields(kind)], strict=True)]
    )


def _value(found: Any, kind: Any) -> Any:
    """A value of a type, which is one of those that fields of messages have.  Raises ValueError for another one."""
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
        return _object(found, kind)
    if origin is dict:
        return {_value(key, of[0]): _value(value, of[1]) for key, value in found}
    if origin is tuple and of[-1] is not Ellipsis:
        return tuple([_value(each, one) for each, one in zip(found, of, strict=True)])
    if of[0] is int and set(map(type, found)) <= {int}:  # counts of all members of a group
        return origin(found)
    return origin([_value(each, of[0]) for each in found])


def _check(message: Message) -> None:
    """Raises ValueError for what the types of fields do not say."""
    if isinstance(message, Chain) and not message.links:
        raise ValueError("a chain without links")
    stock = message.stock if isinstance(message, Answer) else message
    if isinstance(stock, Departure):
        for counts in (stock.sent, stock.received, stock.asked):
            if any(len(members) != len(each) for members, each in counts.items()):
                raise ValueError("counts of a group that are not as many as its members")
