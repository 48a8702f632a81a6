"""Arguments of a function: from files, numbers, and generators such as ``random:4x8xf32``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.reading import dtype_of, is_shaped, shape_of
from spmd_grid.errors import SpmdError
from spmd_grid.typing import Shape

__all__ = ["as_value", "whole_arguments"]

_TYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "i1": "?", "index": "i8"}
_TYPES |= {f"i{n}": f"i{n // 8}" for n in (8, 16, 32, 64)} | {f"ui{n}": f"u{n // 8}" for n in (8, 16, 32, 64)}
_GENERATED = re.compile(r"(random|zeros|ones|iota)(?::((?:\d+x)*)([a-z]+\d*))?(?:@(\d+))?")
_MOST_CELLS = 1 << 31


def _random(shape: Shape, dtype: np.dtype, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    if dtype.kind == "c":
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


_GENERATORS: dict[str, Callable[[Shape, np.dtype, int], np.ndarray]] = {
    "random": _random,
    "zeros": lambda shape, dtype, seed: np.zeros(shape, dtype),
    "ones": lambda shape, dtype, seed: np.ones(shape, dtype),
    "iota": lambda shape, dtype, seed: np.arange(prod(shape)).astype(dtype).reshape(shape),
}


def whole_arguments(specs: Sequence[str], types: Sequence[Attribute], grid: Shape | None) -> list[Any]:
    """The arguments of a function, of these types.

    ``specs``: a file of numpy's, a number, or ``random``, ``zeros``, ``ones`` and ``iota``, as in ``random:4x8xf32@7``
    with a seed; what is not given is random.  ``grid``: for functions with local types, the shape of the grid that
    arrays of all devices have in front; a file without it is the same on all devices.  Raises ExecutionError.
    """
    if len(specs) > len(types):
        raise ExecutionError(f"{len(specs)} inputs are given; the function takes {len(types)}")
    given = [*specs, *["random"] * (len(types) - len(specs))]
    return [_argument(number, spec, kind, grid) for number, (spec, kind) in enumerate(zip(given, types))]


def _argument(number: int, spec: str, kind: Attribute, grid: Shape | None) -> Any:
    title = f"input {number}"
    try:
        dtype = dtype_of(kind)
    except SpmdError as error:
        raise ExecutionError(f"{title}: {error}") from None
    found = _GENERATED.fullmatch(spec)
    if found is not None:
        shape, dtype = _shape_and_dtype(title, found, kind, dtype)
        whole = shape if grid is None else (*grid, *shape)
        if prod(whole) > _MOST_CELLS:
            raise ExecutionError(f"{title}: {spec} has {prod(whole)} cells; at most {_MOST_CELLS} are generated")
        seed = int(found[4]) if found[4] else number
        return _GENERATORS[found[1]](whole, dtype, seed)
    array = _loaded(title, spec, dtype)
    rank = len(shape_of(kind))
    if grid is None or array.ndim == len(grid) + rank:
        return array
    if array.ndim != rank:
        raise ExecutionError(
            f"{title}: {spec} has shape {array.shape}; it must be of {kind}, or have the grid's {grid} in front"
        )
    return np.broadcast_to(array, (*grid, *array.shape))


def _shape_and_dtype(title: str, found: re.Match[str], kind: Attribute, dtype: np.dtype) -> tuple[Shape, np.dtype]:
    if found[3] is not None:
        if found[3] not in _TYPES:
            raise ExecutionError(f"{title}: {found[0]} has the element type {found[3]}; use {', '.join(_TYPES)}")
        return tuple([int(n) for n in found[2].split("x")[:-1]]), np.dtype(_TYPES[found[3]])
    shape = shape_of(kind)
    if None in shape:
        raise ExecutionError(
            f"{title}: its type is {kind}, whose extents are known at run time only; give them, as in random:4x8xf32"
        )
    return tuple([n for n in shape if n is not None]), dtype


def _loaded(title: str, spec: str, dtype: np.dtype) -> np.ndarray:
    """A file of numpy's, or a number."""
    if spec.endswith(".npy") or os.path.exists(spec):
        try:
            return np.load(spec, allow_pickle=False)
        except (OSError, ValueError, EOFError, MemoryError) as error:
            raise ExecutionError(f"{title}: {spec} is not read: {error}") from None
    try:
        return np.asarray(
            complex(spec) if dtype.kind == "c" else float(spec) if dtype.kind == "f" else int(spec), dtype
        )
    except (ValueError, OverflowError):
        raise ExecutionError(
            f"{title} is {spec!r}; it must be a .npy file, a number of type {dtype}, or random, zeros, ones or iota,"
            " as in random:4x8xf32"
        ) from None


def as_value(x: np.ndarray, kind: Attribute) -> Any:
    """An argument as functions take it: numbers are numpy's scalars."""
    return x if is_shaped(kind) else x[()]
