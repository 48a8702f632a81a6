"""The shards of a global array, by brute force: its blocks, their halos, and a stencil over them."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

import spmd_grid as sg
from support.properties.property_oracle import cuts

__all__ = ["core_in_local", "core_of", "cut_out", "halos_of", "overlapped", "shifted_sum", "with_halos"]


def _blocks(extent, sizes, blocks, start=0) -> list:
    """(start, stop) of all blocks, in row-major order of the axes."""
    if blocks == "ceil" or not sizes:
        return [(start + a, start + b) for a, b in cuts(extent, sizes)]
    lengths = [len(part) for part in np.array_split(np.empty(extent), sizes[0])]
    starts = [start, *accumulate(lengths, initial=start)][1:]
    return [cut for a, n in zip(starts, lengths) for cut in _blocks(n, sizes[1:], blocks, a)]


def _box(sharding: sg.Sharding, shape, coords) -> list:
    """(start, stop) per dimension of the cells that a device owns."""
    box, sharded = [], _sharded_dims(sharding)
    for dim, extent in enumerate(shape):
        axes = sharding.split_axes[dim] if dim in sharded else ()
        sizes = [sharding.grid.shape[axis] for axis in axes]
        place = int(np.ravel_multi_index([coords[axis] for axis in axes], sizes)) if axes else 0
        if axes and sharding.sharded_dims_offsets:
            offsets = sharding.sharded_dims_offsets[sharded.index(dim)]
            box.append((offsets[place], offsets[place + 1]))
        else:
            box.append(_blocks(extent, sizes, sharding.blocks)[place])
    return box


def _sharded_dims(sharding: sg.Sharding) -> list:
    return [dim for dim, axes in enumerate(sharding.split_axes) if axes]


def _slices(box) -> tuple:
    return (..., *(slice(a, b) for a, b in box))


def halos_of(sharding: sg.Sharding, ndim: int) -> list:
    """(low, high) per dimension."""
    sharded = _sharded_dims(sharding)
    sizes = dict(zip(sharded, sharding.halo_sizes or [(0, 0)] * len(sharded)))
    return [sizes.get(dim, (0, 0)) for dim in range(ndim)]


def core_of(sharding: sg.Sharding, shape, coords) -> tuple:
    """The slices of the global array that a device owns."""
    return _slices(_box(sharding, shape, coords))


def core_in_local(sharding: sg.Sharding, shape, coords) -> tuple:
    """The slices of the local array with these cells."""
    box, halos = _box(sharding, shape, coords), halos_of(sharding, len(shape))
    return _slices([(low, low + b - a) for (a, b), (low, _) in zip(box, halos, strict=True)])


def cut_out(whole, sharding: sg.Sharding, coords) -> np.ndarray:
    """The local array of a device: what the domain has there, zeros beyond."""
    halos = halos_of(sharding, whole.ndim)
    padded = np.zeros([n + low + high for n, (low, high) in zip(whole.shape, halos)], whole.dtype)
    padded[_slices([(low, low + n) for n, (low, _) in zip(whole.shape, halos)])] = whole
    box = _box(sharding, whole.shape, coords)
    return padded[_slices([(a, b + low + high) for (a, b), (low, high) in zip(box, halos)])].copy()


def with_halos(local, whole, sharding: sg.Sharding, coords, options) -> np.ndarray:
    """The local array after an update: every halo cell that some cell of the domain belongs into has it."""
    sources, beside = [], []
    box, halos = _box(sharding, whole.shape, coords), halos_of(sharding, whole.ndim)
    for dim, ((start, stop), (low, high)) in enumerate(zip(box, halos, strict=True)):
        cells, extent = np.arange(start - low, stop + high), whole.shape[dim]
        beside.append((cells < start) | (cells >= stop))
        if options["periodic"][dim]:
            cells = cells % extent if extent else np.full_like(cells, -1)
        elif options["boundary"] == "edge":
            cells = np.clip(cells, 0, extent - 1)
        else:
            cells = np.where((cells >= 0) & (cells < extent), cells, -1)
        sources.append(cells)
    result = local.copy()
    taken = [np.flatnonzero(cells >= 0) for cells in sources]
    values = whole[np.ix_(*(cells[at] for cells, at in zip(sources, taken)))]
    in_halos = sum(np.ix_(*(side[at].astype(int) for side, at in zip(beside, taken))))
    wanted = np.broadcast_to((in_halos > 0) & (options["corners"] | (in_halos == 1)), values.shape)
    region = result[np.ix_(*taken)]
    region[wanted] = values[wanted]
    result[np.ix_(*taken)] = region
    return result


def shifted_sum(*arguments) -> None:
    """A kernel as `map_overlap` calls it: what lies at one offset, and for numbers plus what lies at another."""
    *fields, out, starts, stops, offsets = arguments
    first, second = (
        field[_slices([(a + o, b + o) for a, b, o in zip(starts, stops, offset, strict=True)])]
        for field, offset in zip((fields[0], fields[-1]), offsets, strict=True)
    )
    with np.errstate(all="ignore"):
        out[_slices(zip(starts, stops))] = first + second if out.dtype.kind in "biufc" else first


def overlapped(fields, out, sharding: sg.Sharding, shape, coords, args) -> np.ndarray:
    """``out`` with `shifted_sum` of local arrays: in the region, and not where a dimension ends without a halo."""
    box, halos, sharded = _box(sharding, shape, coords), halos_of(sharding, len(shape)), _sharded_dims(sharding)
    starts, stops = [], []
    for dim, ((a, b), (halo, _), (low, high)) in enumerate(zip(box, halos, args["radius"], strict=True)):
        wanted = np.arange(shape[dim])[slice(*args["region"][dim]) if args["region"] else slice(None)]
        allowed = range(shape[dim]) if dim in sharded else range(low, shape[dim] - high)
        cells = [cell for cell in range(a, b) if cell in wanted and cell in allowed]
        if not cells:
            return out
        starts.append(cells[0] - a + halo)
        stops.append(cells[-1] + 1 - a + halo)
    out = out.copy()
    shifted_sum(*fields, out, starts, stops, args["offsets"])
    return out
