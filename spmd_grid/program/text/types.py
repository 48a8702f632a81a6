"""Types as the dialect writes them: ``tensor<2x4xf32>``, locally ``tensor<?x4xf32>`` where blocks differ in extent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.text.calls import attributes_text, string_text
from spmd_grid.typing import Shape

__all__ = [
    "SHORT_FLOATS",
    "axes_text",
    "dtype_text",
    "encoded_type",
    "local_extents",
    "local_type",
    "sharding_text",
    "tensor_type",
]

_LETTERS = {"f": "f", "i": "i", "u": "ui"}
SHORT_FLOATS = {
    "bfloat16": "bf16",
    **{
        f"float8_{each.lower()}": f"f8{each}"
        for each in ("E5M2", "E4M3", "E4M3FN", "E5M2FNUZ", "E4M3FNUZ", "E4M3B11FNUZ", "E3M4", "E8M0FNU")
    },
}  # of the package ml_dtypes


def dtype_text(dtype: np.dtype) -> str:
    """An element type; what no dialect has one for is opaque, by numpy's name.

    >>> [dtype_text(np.dtype(name)) for name in ("float32", "int8", "uint16", "bool", "complex64", "M8[s]")]
    ['f32', 'i8', 'ui16', 'i1', 'complex<f32>', '!emitc.opaque<"datetime64[s]">']
    """
    if dtype.kind in _LETTERS and dtype.itemsize <= 8:
        return f"{_LETTERS[dtype.kind]}{8 * dtype.itemsize}"
    if dtype.kind == "b":
        return "i1"
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return f"complex<f{4 * dtype.itemsize}>"
    return SHORT_FLOATS.get(dtype.name) or f"!emitc.opaque<{string_text(str(dtype))}>"


def tensor_type(extents: Iterable[int | None], dtype: np.dtype, encoding: str = "") -> str:
    """The type of an array; None stands for an extent that is not the same on all devices.

    >>> tensor_type((2, None), np.dtype("f8"))
    'tensor<2x?xf64>'
    """
    sizes = "".join(f"{'?' if n is None else n}x" for n in extents)
    return f"tensor<{sizes}{dtype_text(dtype)}{encoding and ', '}{encoding}>"


def axes_text(lists: Sequence[Iterable[int]]) -> str:
    """Lists of axes as the dialect writes them, without empty ones at the end.

    >>> axes_text([(), (0, 1), ()]), axes_text([()])
    ('[[], [0, 1]]', '[[]]')
    """
    shown = [list(axes) for axes in lists]
    while len(shown) > 1 and not shown[-1]:
        shown.pop()
    return str(shown or [[]])


def local_extents(sharding: Sharding, shape: Shape) -> tuple[int | None, ...]:
    """The extents of the local array, None where devices differ, found without a look at each device.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> local_extents(Sharding(Grid((2, 1000)), [[0], [1]], halo_sizes=[1, 1, 0, 0]), (8, 1001))
    (6, None)
    """
    return tuple([_local_extent(sharding, dim, n) for dim, n in enumerate(shape)])


def _local_extent(sharding: Sharding, dim: int, extent: int) -> int | None:
    offsets, halo = sharding.offsets_of(dim), sum(sharding.halo_of(dim))
    if offsets is not None:
        lengths = {stop - start for start, stop in zip(offsets, offsets[1:])}
        return halo + lengths.pop() if len(lengths) == 1 else None
    n = prod(sharding.sizes_of(dim))
    return None if extent % n else extent // n + halo


def local_type(sharding: Sharding, shape: Shape, dtype: np.dtype) -> str:
    """The type of what a device holds."""
    return tensor_type(local_extents(sharding, shape), dtype)


def encoded_type(sharding: Sharding, shape: Shape, dtype: np.dtype) -> str:
    """The global type with the sharding as its encoding, written as a dictionary, which any compiler reads.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> encoded_type(Sharding(Grid((2,)), [], partial_axes=[0]), (4, 6), np.dtype("f4"))
    'tensor<4x6xf32, {split_axes = [[]], partial_axes = [0]}>'
    """
    lists = [sharding.axes_of(dim) for dim in range(len(shape))]
    if not any(lists) and not sharding.partial_axes:
        return tensor_type(shape, dtype)
    parts = [f"split_axes = {axes_text(lists)}", *_partial(sharding)]
    if sharding.halo_sizes:
        parts.append(f"halo_sizes = {[n for pair in sharding.halo_sizes for n in pair]}")
    if sharding.sharded_dims_offsets:
        parts.append(f"sharded_dims_offsets = {[n for each in sharding.sharded_dims_offsets for n in each]}")
    if sharding.blocks != "ceil":
        parts.append(f'blocks = "{sharding.blocks}"')
    if sharding.grid.ranks is not None:  # a transposed array, say, is on a grid of devices in another order
        parts.append(f"ranks = {list(sharding.grid.ranks)}")
    return tensor_type(shape, dtype, f"{{{', '.join(parts)}}}")


def _partial(sharding: Sharding) -> list[str]:
    """The axes of sums that are finished later, and the reduction where it is another."""
    if not sharding.partial_axes:
        return []
    kind = [f'partial_kind = "{sharding.partial_kind}"'] if sharding.partial_kind != "sum" else []
    return [f"partial_axes = {list(sharding.partial_axes)}", *kind]


def sharding_text(sharding: Sharding, grid: str) -> str:
    """A sharding as an operation of the dialect, without its result.

    What the dialect has no words for is an attribute: partial sums, block policies, dimensions that are open, and
    offsets beside halos, or of a dimension that several axes split, of which its verifier counts the shards otherwise.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> sharding_text(Sharding(Grid((2, 2)), [[], [1]], partial_axes=[0]), "@grid0")
    'shard.sharding @grid0 split_axes = [[], [1]] {spmd_grid.partial_axes = [0]} : !shard.sharding'
    """
    text = f"shard.sharding {grid} split_axes = {axes_text(sharding.split_axes)}"
    if sharding.halo_sizes:
        text += f" halo_sizes = {[n for pair in sharding.halo_sizes for n in pair]}"
    offsets = [n for each in sharding.sharded_dims_offsets or () for n in each]
    is_plain = not sharding.halo_sizes and all(len(axes) < 2 for axes in sharding.split_axes)
    if offsets and is_plain:
        text += f" sharded_dims_offsets = {offsets}"
    extra = _partial(sharding)
    extra += [f'blocks = "{sharding.blocks}"'] if sharding.blocks != "ceil" else []
    extra += [f"block_starts = {offsets}"] if offsets and not is_plain else []
    extra += [f"open_dims = {list(sharding.open_dims)}"] if sharding.open_dims else []
    return f"{text}{attributes_text(extra)} : !shard.sharding"
