"""Results of a process as bytes for the others: JSON of what they are, then the bytes of arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.dialect.execute.values import Undefined
from spmd_grid.errors import SpmdError, TransportError
from spmd_grid.exchange.dtype_tokens import dtype_of_token, token_of_dtype
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding

__all__ = ["results_of", "told"]

_LENGTH_BYTES = 8
_OF_PYTHON = bool, int, float, str, type(None)
_OF_SHARDINGS = "blocks", "halo_sizes", "partial_axes", "partial_kind", "open_dims"


def told(results: Sequence[Any]) -> bytes:
    """The bytes from which `results_of` makes these results.  Local; what cannot be told is refused there, by all."""
    pieces: list[bytes] = []
    head = json.dumps([_told(x, pieces) for x in results]).encode()
    return b"".join([len(head).to_bytes(_LENGTH_BYTES, "little"), head, *pieces])


def results_of(data: bytes, process: int) -> list[Any]:
    """The results that a process has told; their arrays are read-only.  Local.

    Raises TransportError where there are none, or one that cannot be told.
    """
    try:
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
        found, at = [], end
        for kind, *words in json.loads(data[_LENGTH_BYTES:end]):
            if kind == "array":
                x = _array(words, data, at)
                at += x.nbytes
                found.append(x if words[2] else x[()])
            else:
                found.append(_VALUES[kind](*words))
        return found
    except (SpmdError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise TransportError(f"process {process} has sent results that cannot be read: {error}") from None


def _told(x: Any, pieces: list[bytes]) -> list[Any]:
    if isinstance(x, np.ndarray | np.generic) and not x.dtype.hasobject:
        try:
            token = token_of_dtype(x.dtype)
        except SpmdError as error:
            return ["refused", str(error)]
        pieces.append(x.tobytes())
        return ["array", token, list(x.shape), isinstance(x, np.ndarray)]
    if type(x) in _OF_PYTHON:
        return ["number", x]
    if type(x) is complex:
        return ["complex", x.real, x.imag]
    if isinstance(x, Undefined):
        return ["undefined", x.reason]
    if isinstance(x, Sharding):
        grid, offsets = x.grid, x.sharded_dims_offsets
        words = {name: getattr(x, name) for name in _OF_SHARDINGS}
        words["sharded_dims_offsets"] = offsets and [list(each) for each in offsets]
        return ["sharding", [grid.shape, grid.axis_names, grid.ranks], x.split_axes, words]
    return ["refused", f"a {type(x).__name__} cannot be told to other processes"]


def _array(words: list[Any], data: bytes, at: int) -> np.ndarray:
    token, shape, _ = words
    dtype = dtype_of_token(token)
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"a shape of {str(shape)[:80]}")
    if math.prod(shape) * dtype.itemsize > len(data) - at:
        raise ValueError(f"an array of shape {str(shape)[:80]} in {len(data) - at} bytes")
    return np.ndarray(tuple(shape), dtype, data, at)


def _number(x: Any) -> Any:
    if type(x) not in _OF_PYTHON:
        raise ValueError(f"{str(x)[:80]} is no number")
    return x


def _sharding(grid: Any, split_axes: Any, words: dict[str, Any]) -> Sharding:
    shape, names, ranks = grid
    if not words.keys() <= {*_OF_SHARDINGS, "sharded_dims_offsets"}:
        raise ValueError(f"a sharding of {sorted(words)}")
    return Sharding(Grid(shape, names, ranks), split_axes, **words)


def _refused(reason: str) -> Any:
    raise ValueError(reason)


_VALUES: dict[str, Callable[..., Any]] = {
    "number": _number,
    "complex": complex,
    "undefined": Undefined,
    "sharding": _sharding,
    "refused": _refused,
}
