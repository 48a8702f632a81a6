"""Types as the dialect writes them: ``tensor<2x4xf32>``, locally ``tensor<?x4xf32>`` where blocks differ in extent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["axes_text", "dtype_text", "encoded_type", "local_extents", "local_type", "sharding_text", "tensor_type"]

_LETTERS = {"f": "f", "i": "i", "u": "ui"}


def dtype_text(dtype: np.dtype) -> str:
    """An element type.

    >>> [dtype_text(np.dtype(name)) for name in ("float32", "int8", "uint16", "bool", "complex64", "M8[s]")]
    ['f32', 'i8', 'ui16', 'i1', 'complex<f32>', '!numpy.dtype<"datetime64[s]">']
    """
    if dtype.kind in _LETTERS:
        return f"{_LETTERS[dtype.kind]}{8 * dtype.itemsize}"
    if dtype.kind == "b":
        return "i1"
    if dtype.kind == "c":
        return f"complex<f{4 * dtype.itemsize}>"
    return f'!numpy.dtype<"{dtype}">'


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
    """The global type with the sharding as its encoding, as in the RFC: axes of partial sums stand behind the others.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> encoded_type(Sharding(Grid((2,)), [], partial_axes=[0]), (4, 6), np.dtype("f4"))
    'tensor<4x6xf32, #shard.shard<[[], [], [0]]>>'
    """
    lists = [sharding.axes_of(dim) for dim in range(len(shape))]
    if sharding.partial_axes:
        lists.append(sharding.partial_axes)
    if not any(lists):
        return tensor_type(shape, dtype)
    kind = f", {sharding.partial_kind}" if sharding.partial_kind != "sum" else ""
    return tensor_type(shape, dtype, f"#shard.shard<{axes_text(lists)}{kind}{_blocks_text(sharding)}>")


def _blocks_text(sharding: Sharding) -> str:
    parts = ""
    if sharding.halo_sizes:
        parts += f", halo_sizes = {[n for pair in sharding.halo_sizes for n in pair]}"
    if sharding.sharded_dims_offsets:
        parts += f", sharded_dims_offsets = {[n for each in sharding.sharded_dims_offsets for n in each]}"
    if sharding.blocks != "ceil":
        parts += f', blocks = "{sharding.blocks}"'
    if sharding.grid.ranks is not None:
        parts += f", ranks = {list(sharding.grid.ranks)}"
    return parts


def sharding_text(sharding: Sharding, grid: str) -> str:
    """A sharding as an operation of the dialect, without its result.

    Partial axes are written as before they left the dialect; what it never had is an attribute: block policies, offsets
    beside halos, and dimensions that are open.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> sharding_text(Sharding(Grid((2, 2)), [[], [1]], partial_axes=[0], blocks="balanced"), "@grid0")
    'shard.sharding @grid0 split_axes = [[], [1]] partial = sum [0] {blocks = "balanced"} : !shard.sharding'
    """
    text = f"shard.sharding {grid} split_axes = {axes_text(sharding.split_axes)}"
    if sharding.partial_axes:
        text += f" partial = {sharding.partial_kind} {list(sharding.partial_axes)}"
    if sharding.halo_sizes:
        text += f" halo_sizes = {[n for pair in sharding.halo_sizes for n in pair]}"
    offsets = [n for each in sharding.sharded_dims_offsets or () for n in each]
    if offsets and not sharding.halo_sizes:
        text += f" sharded_dims_offsets = {offsets}"
    extra = [f'blocks = "{sharding.blocks}"'] if sharding.blocks != "ceil" else []
    extra += [f"block_starts = {offsets}"] if offsets and sharding.halo_sizes else []
    extra += [f"open_dims = {list(sharding.open_dims)}"] if sharding.open_dims else []
    return f"{text}{' {' + ', '.join(extra) + '}' if extra else ''} : !shard.sharding"
