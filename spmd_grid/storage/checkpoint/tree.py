"""The state of a program as a tree of JSON: what is not an array stands in it, arrays by the names of their files.

A state is a dict of strings, with dicts, lists and tuples in it.  Other values are described by a dict of one entry,
which says what they are: ``{"float": "0.5"}``, ``{"array": "u.npy"}``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DamagedError, DTypeError
from spmd_grid.random import Generator
from spmd_grid.storage.checkpoint.dtypes import dtype_from_json, dtype_to_json
from spmd_grid.storage.checkpoint.generators import (
    BIT_GENERATORS,
    generator_from,
    numpy_generator_from,
    state_words,
)
from spmd_grid.storage.ranges.padding import with_clean_padding

__all__ = ["ARRAYS", "array_names", "file_name", "from_tree", "to_tree"]

ARRAYS = ("sharded", "array")  # the words for sharded arrays, and for plain ones
_LONGEST_NAME = 200  # of a file; file systems take 255 bytes
_DEEPEST = 64

Arrays = dict[str, "ShardedArray | np.ndarray"]


def to_tree(op: str, state: Any, arrays: Arrays, name: str = "", depth: int = 0) -> Any:
    """The tree of a state; its arrays are added to ``arrays`` by name, keys joined by slashes.

    Local.  Raises DTypeError for a value that cannot be stored, for a key that is not a string or has a slash, and for
    a state nested too deep, as one that holds itself.
    """
    if depth > _DEEPEST:
        raise DTypeError(f"{op}: {_at(name[:_DEEPEST] + '...')} is nested more than {_DEEPEST} deep")
    if isinstance(state, dict):
        for key in state:
            if not isinstance(key, str) or "/" in key or not key or not _is_text(key):
                raise DTypeError(f"{op}: {_at(name)} has the key {key!r}; keys must be strings without slashes")
        names = {key: f"{name}/{key}" if name else key for key in state}
        return {"dict": {key: to_tree(op, each, arrays, names[key], depth + 1) for key, each in state.items()}}
    if isinstance(state, np.ma.MaskedArray):
        raise DTypeError(f"{op}: {_at(name)} is a masked array; save its data and its mask")
    if isinstance(state, ShardedArray | np.ndarray):
        arrays[name] = state
        return {ARRAYS[not isinstance(state, ShardedArray)]: name}
    if isinstance(state, list | tuple) and type(state) in (list, tuple):
        found = [to_tree(op, each, arrays, f"{name}/{i}", depth + 1) for i, each in enumerate(state)]
        return {type(state).__name__: found}
    return _value_to_tree(op, state, name)


def _value_to_tree(op: str, value: Any, name: str) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return {"float": repr(value)}
    if kind is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return {"scalar": [dtype_to_json(op, value.dtype), with_clean_padding(np.asarray(value)).tobytes().hex()]}
    if kind is np.random.Generator and type(value.bit_generator).__name__ in BIT_GENERATORS:
        return {"numpy.random": state_words(value.bit_generator.state)}
    if kind is Generator:
        return {"random": state_words(value.state)}
    raise DTypeError(
        f"{op}: {_at(name)} is {kind.__name__}; a state holds sharded arrays, numpy arrays, numbers, strings, bytes,"
        " None, random generators, and dicts, lists and tuples of them"
    )


def from_tree(op: str, tree: Any, array: Callable[[str, bool], Any], keeps: Callable[[str], bool]) -> Any:
    """The state of a tree, which is not trusted.  Raises DamagedError.

    ``array(name, is_sharded)`` gives an array.  Dicts have only the entries that ``keeps(name)``; lists are whole.
    """
    try:
        return _parse(op, tree, "", array, keeps, 0)
    except DamagedError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        raise DamagedError(f"{op}: the manifest's state cannot be read: {type(error).__name__}: {error}") from None


def _parse(
    op: str, tree: Any, name: str, array: Callable[[str, bool], Any], keeps: Callable[[str], bool], depth: int
) -> Any:
    if tree is None or isinstance(tree, bool | int | str):
        return tree
    if not isinstance(tree, dict) or len(tree) != 1:
        raise DamagedError(f"{op}: the manifest's state has {str(tree)[:80]!r} for {name!r}, which is no value")
    if depth > _DEEPEST:
        raise DamagedError(f"{op}: the manifest's state is nested more than {_DEEPEST} deep")
    ((kind, value),) = tree.items()
    if kind == "dict":
        if not isinstance(value, dict) or any("/" in key or not key or not _is_text(key) for key in value):
            raise DamagedError(f"{op}: the manifest's state has {str(value)[:80]!r} for the dict {name!r}")
        names = {key: f"{name}/{key}" if name else key for key in value}
        inside = {key: each for key, each in value.items() if keeps(names[key])}
        return {key: _parse(op, each, names[key], array, keeps, depth + 1) for key, each in inside.items()}
    if kind in ("list", "tuple"):
        if not isinstance(value, list):
            raise DamagedError(f"{op}: the manifest's state has {str(value)[:80]!r} for the {kind} {name!r}")
        found = [_parse(op, each, f"{name}/{i}", array, keeps, depth + 1) for i, each in enumerate(value)]
        return found if kind == "list" else tuple(found)
    if kind in ARRAYS:
        if value != name:
            raise DamagedError(f"{op}: the manifest's state has the array {value!r} in the place of {name!r}")
        return array(name, kind == ARRAYS[0])
    return _value_from_tree(op, kind, value)


def _value_from_tree(op: str, kind: str, value: Any) -> Any:
    if kind == "float":
        return float(value)
    if kind == "complex":
        real, imaginary = value
        return complex(float(real), float(imaginary))
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "scalar":
        dtype, data = dtype_from_json(op, value[0]), bytes.fromhex(value[1])
        if len(data) != dtype.itemsize:
            raise DamagedError(f"{op}: a scalar of dtype {dtype} has {len(data)} bytes in the manifest")
        return np.frombuffer(data, dtype)[0] if data else np.zeros((), dtype)[()]
    if kind == "numpy.random":
        return numpy_generator_from(op, value)
    if kind == "random":
        return generator_from(op, value)
    raise DamagedError(f"{op}: the manifest has a value of unknown kind {kind!r}")


def array_names(tree: Any) -> Iterator[str]:
    """The names of all arrays in a tree, in its order."""
    if isinstance(tree, dict):
        ((kind, value),) = tree.items()
        if kind in ARRAYS:
            yield value
        elif kind in ("dict", "list", "tuple"):
            for each in value.values() if kind == "dict" else value:
                yield from array_names(each)


def file_name(name: str) -> str:
    """The name of an array's file: that of the array, with dots for slashes, and other characters escaped.

    >>> file_name("fluid/u"), file_name("a.b/ü")
    ('fluid.u.npy', 'a%2Eb.%C3%BC.npy')
    """
    parts = [quote(part, safe="").replace(".", "%2E").replace("~", "%7E") for part in name.split("/")]
    found = ".".join(parts)
    if len(found) > _LONGEST_NAME:
        found = found[: _LONGEST_NAME - 33] + "-" + hashlib.sha256(name.encode()).hexdigest()[:32]
    return found + ".npy"


def _is_text(key: str) -> bool:
    """Whether a key can be part of a file's name: half of a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in key)


def _at(name: str) -> str:
    return f"state[{name!r}]" if name else "state"
