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
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["as_value", "device_arguments", "whole_arguments"]

_TYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "i1": "?", "index": "i8"}
_TYPES |= {f"i{n}": f"i{n // 8}" for n in (8, 16, 32, 64)} | {f"ui{n}": f"u{n // 8}" for n in (8, 16, 32, 64)}
_GENERATED = re.compile(r"(random|zeros|ones|iota)(?::((?:\d+x)*)([a-z]+\d*))?(?:@(\d+))?")
_MOST_CELLS = 1 << 31


def _random(shape: Shape, dtype: np.dtype, seed: int, device: int) -> np.ndarray:
    generator = np.random.default_rng(seed if not device else [seed, device])
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    if dtype.kind == "c":
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def _iota(shape: Shape, dtype: np.dtype, seed: int, device: int) -> np.ndarray:
    first = device * prod(shape)
    return np.arange(first, first + prod(shape)).astype(dtype).reshape(shape)


_GENERATORS: dict[str, Callable[[Shape, np.dtype, int, int], np.ndarray]] = {
    "random": _random,
    "zeros": lambda shape, dtype, seed, device: np.zeros(shape, dtype),
    "ones": lambda shape, dtype, seed, device: np.ones(shape, dtype),
    "iota": _iota,
}


def whole_arguments(specs: Sequence[str], types: Sequence[Attribute]) -> list[Any]:
    """The arguments of a function of whole arrays, of these types.

    ``specs``: a file of numpy's, a number, or ``random``, ``zeros``, ``ones`` and ``iota``, as in ``random:4x8xf32@7``
    with a seed; what is not given is random.  Raises ExecutionError.
    """
    return _arguments(specs, types, (), ())


def device_arguments(specs: Sequence[str], types: Sequence[Attribute], grid: Shape, at: MultiIndex) -> list[Any]:
    """The arguments of a function of local types on the device at ``at``, whose own arrays alone are made.

    ``specs``: as for `whole_arguments`; files of arrays have the dimensions of the grid in front, and one without them
    is the same on all devices.  Raises ExecutionError.
    """
    found = _arguments(specs, types, grid, at)
    return [as_value(np.array(x), kind) for x, kind in zip(found, types)]


def _arguments(specs: Sequence[str], types: Sequence[Attribute], grid: Shape, at: MultiIndex) -> list[Any]:
    if len(specs) > len(types):
        raise ExecutionError(f"{len(specs)} inputs are given; the function takes {len(types)}")
    given = [*specs, *["random"] * (len(types) - len(specs))]
    return [_argument(number, spec, kind, grid, at) for number, (spec, kind) in enumerate(zip(given, types))]


def _argument(number: int, spec: str, kind: Attribute, grid: Shape, at: MultiIndex) -> Any:
    title = f"input {number}"
    try:
        dtype = dtype_of(kind)
    except SpmdError as error:
        raise ExecutionError(f"{title}: {error}") from None
    found = _GENERATED.fullmatch(spec)
    if found is not None:
        shape, dtype = _shape_and_dtype(title, found, kind, dtype)
        if prod(shape) * prod(grid) > _MOST_CELLS:
            raise ExecutionError(
                f"{title}: {spec} has {prod(shape) * prod(grid)} cells; at most {_MOST_CELLS} are generated"
            )
        seed = int(found[4]) if found[4] else number
        return _GENERATORS[found[1]](shape, dtype, seed, int(np.ravel_multi_index(at, grid)) if grid else 0)
    array = _loaded(title, spec, dtype, maps=bool(grid))
    rank = len(shape_of(kind))
    if grid and array.ndim == len(grid) + rank and array.shape[: len(grid)] == grid:
        return array[at]
    if grid and array.ndim != rank:
        raise ExecutionError(
            f"{title}: {spec} has shape {array.shape}; it must be of {kind}, or have the grid's {grid} in front"
        )
    return array


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


def _loaded(title: str, spec: str, dtype: np.dtype, maps: bool) -> np.ndarray:
    """A file of numpy's, or a number.  ``maps``: the file is mapped, as the caller reads a part."""
    if spec.endswith(".npy") or os.path.exists(spec):
        try:
            return np.load(spec, mmap_mode="r" if maps else None, allow_pickle=False)
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
