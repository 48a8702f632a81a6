"""All devices in one process, and communication by numpy on their arrays: the meaning of a function with local types.

Every device is a thread; at a collective the threads of a group leave their arrays, and one of them computes the
results of all.  Nothing of the engine takes part, so the engine can be compared with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from spmd_grid.dialect.execute.communication import Devices, Function
from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.layouts import block_of, process_coords, whole_of
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout

__all__ = ["ReferenceDevice", "ReferenceWorld", "run_reference"]

Arrays = Sequence[Any]
_PATIENCE = 60.0  # seconds that a device waits for others before the program counts as hanging

_KINDS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "product": np.multiply,
    "average": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def _cut(x: np.ndarray, axis: int, sizes: Sequence[int]) -> list[np.ndarray]:
    """The blocks of an array along an axis, cut by each of the sizes in turn."""
    blocks = [x]
    for n in sizes:
        parts = []
        for block in blocks:
            extent = block.shape[axis]
            chunk = -(-extent // n)
            parts += np.split(block, [min(i * chunk, extent) for i in range(1, n)], axis)
        blocks = parts
    return blocks


def _fold(group: Arrays, reduction: Any, dtype: np.dtype) -> np.ndarray:
    arrays = [x.astype(dtype) for x in group]
    found = reduce(reduction if callable(reduction) else _KINDS[reduction], arrays)
    return np.true_divide(found, len(arrays)).astype(dtype) if reduction == "average" else found.astype(dtype)


def _at(coords: Sequence[int], sizes: Sequence[int]) -> int:
    return int(np.ravel_multi_index(tuple(coords), tuple(sizes))) if sizes else 0


def _on_root(found: Any, root: Sequence[int], sizes: Sequence[int], n: int) -> list[Any]:
    return [found if member == _at(root, sizes) else None for member in range(n)]


def _shifted(group: Arrays, offset: int, rotate: bool) -> list[Any]:
    n = len(group)
    sources = [member - offset for member in range(n)]
    if rotate:
        return [group[source % n] for source in sources]
    return [group[source] if 0 <= source < n else None for source in sources]


_RULES: dict[str, Callable[..., list[Any]]] = {
    "all_gather": lambda group, sizes, gather_axis: [np.concatenate(group, gather_axis)] * len(group),
    "all_reduce": lambda group, sizes, reduction, dtype: [_fold(group, reduction, dtype)] * len(group),
    "all_slice": lambda group, sizes, slice_axis: [_cut(x, slice_axis, sizes)[i] for i, x in enumerate(group)],
    "all_to_all": lambda group, sizes, split_axis, concat_axis: [
        np.concatenate(pieces, concat_axis) for pieces in zip(*[_cut(x, split_axis, sizes) for x in group])
    ],
    "broadcast": lambda group, sizes, root: [group[_at(root, sizes)]] * len(group),
    "gather": lambda group, sizes, gather_axis, root: _on_root(
        np.concatenate(group, gather_axis), root, sizes, len(group)
    ),
    "reduce": lambda group, sizes, reduction, dtype, root: _on_root(
        _fold(group, reduction, dtype), root, sizes, len(group)
    ),
    "reduce_scatter": lambda group, sizes, reduction, dtype, scatter_axis: _cut(
        _fold(group, reduction, dtype), scatter_axis, sizes
    ),
    "scatter": lambda group, sizes, scatter_axis, root: _cut(group[_at(root, sizes)], scatter_axis, sizes),
    "permute": lambda group, sizes, pairs: [
        next((group[source] for source, target in pairs if target == member), None) for member in range(len(group))
    ],
    "shift": lambda group, sizes, shift_axis, offset, rotate: _shifted(group, offset, rotate),
}


def _filled(
    arrays: dict[tuple[int, ...], Any], lists: Sequence[Sequence[int]], halos: Sequence[int], shape: Any
) -> Any:
    """Every array after its halos are filled, from the whole array that the cores make up."""
    pairs = list(zip(halos[::2], halos[1::2]))
    cut = [dim for dim, axes in enumerate(lists) if axes]
    halo = dict(zip(cut, pairs, strict=True))
    starts: dict[tuple[int, int], int] = {}
    extents: dict[int, int] = {}

    def block(coords: tuple[int, ...], dim: int) -> int:
        return _at([coords[a] for a in lists[dim]], [shape[a] for a in lists[dim]])

    for dim in cut:
        sizes = {}
        for coords, x in arrays.items():
            sizes[block(coords, dim)] = x.shape[dim] - sum(halo[dim])
        at = 0
        for number in sorted(sizes):
            starts[dim, number] = at
            at += sizes[number]
        extents[dim] = at
    results = {}
    for coords, x in arrays.items():
        found = x.copy()
        like = {a: coords[a] for a in range(len(shape)) if a not in {a for axes in lists for a in axes}}
        for other, source in arrays.items():
            if any(other[a] != n for a, n in like.items()):
                continue
            _copy_core(found, coords, source, other, cut, halo, starts, extents, block)
        results[coords] = found
    return results


def _copy_core(
    target: np.ndarray,
    coords: tuple[int, ...],
    source: np.ndarray,
    other: tuple[int, ...],
    cut: Sequence[int],
    halo: dict[int, tuple[int, int]],
    starts: dict[tuple[int, int], int],
    extents: dict[int, int],
    block: Callable[[tuple[int, ...], int], int],
) -> None:
    """Copy the cells of the source's core that the target holds."""
    into, out = [slice(None)] * target.ndim, [slice(None)] * target.ndim
    for dim in cut:
        low, high = halo[dim]
        begin, first = starts[dim, block(coords, dim)], starts[dim, block(other, dim)]
        held = max(begin - low, 0), min(begin + target.shape[dim] - low, extents[dim])
        owned = first, first + source.shape[dim] - low - high
        start, stop = max(held[0], owned[0]), min(held[1], owned[1])
        if start >= stop:
            return
        into[dim] = slice(start - begin + low, stop - begin + low)
        out[dim] = slice(start - first + low, stop - first + low)
    target[tuple(into)] = source[tuple(out)]


class _Meeting:
    """One collective of a group: the arrays of its members, and their results."""

    def __init__(self) -> None:
        self.given: dict[Any, Any] = {}
        self.found: dict[Any, Any] | None = None


class ReferenceWorld:
    """The meetings of the devices.  ``failed``: a device has ended with an error, so that no other waits for it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.meetings: dict[Any, _Meeting] = {}
        self.sent: dict[Any, deque[Any]] = {}
        self.failed = False

    def wait(self, is_done: Callable[[], bool], what: str) -> None:
        if not self.changed.wait_for(lambda: is_done() or self.failed, _PATIENCE) or not is_done():
            raise ExecutionError(f"{what}: other devices of the group do not take part")


class ReferenceDevice(Devices):
    """One device of the reference; ``size``: how many there are."""

    def __init__(self, world: ReferenceWorld, grids: dict[str, Grid], rank: int, size: int = 0):
        super().__init__(grids)
        self.size, self.rank = size, rank
        self._world = world
        self._counts: dict[Any, int] = {}

    def coords(self, name: str) -> tuple[int, ...]:
        """The coordinates of this device."""
        return process_coords(self.grid(name), self.rank)

    def run(self, name: str, grid: str, axes: tuple[int, ...], x: Any, options: dict[str, Any]) -> Any:
        """The result of a collective; the last member of the group that comes computes those of all."""
        shape, coords = self.grid(grid).shape, self.coords(grid)
        if name == "shift":
            axes = (options["shift_axis"],)
        if name == "update_halo":
            axes = tuple(range(len(shape)))
        sizes = [shape[axis] for axis in axes]
        rest = tuple([n for axis, n in enumerate(coords) if axis not in axes])
        own = tuple([coords[axis] for axis in axes])
        if name in ("send", "recv"):
            return self._message(name, (grid, axes, rest), own, x, options)
        given = x if x is None or name == "update_halo" else np.array(x)
        group = f"shard.{name}", grid, axes, rest
        found = self._met(group, own, given, prod(sizes), lambda all_: _together(name, all_, sizes, options, shape))
        if name == "update_halo":
            x[...] = found
            return x
        return None if found is None else found.copy()

    def reshard(self, grid: str, x: Any, source: Layout, target: Layout) -> Any:
        """The block of another layout of the same array, cut out of the whole one."""
        return self.collectively(grid, lambda whole: whole, [x], [source], [target])[0]

    def among(self, group: tuple[int, ...], name: str, x: Any, options: dict[str, Any]) -> Any:
        """The result of a collective of devices by number, in this order."""
        sizes = [len(group)]
        found = self._met(
            (f"stablehlo.{name}", group),
            (group.index(self.rank),),
            np.array(x),
            len(group),
            lambda all_: _together(name, all_, sizes, options, sizes),
        )
        return None if found is None else found.copy()

    def collectively(self, grid: str, function: Function, blocks: Any, sources: Any, targets: Any) -> list[Any]:
        """The blocks of the results of a function of the whole arrays."""
        size = self.grid(grid).size

        def call(given: dict[Any, Any]) -> dict[Any, Any]:
            wholes = [
                whole_of({n: given[n][i] for n in range(size)}, layout) if layout is not None else given[0][i]
                for i, layout in enumerate(sources)
            ]
            found = function(*wholes)
            results = found if isinstance(found, tuple) else (found,)
            return {
                n: [block_of(np.asarray(x), layout, n) for x, layout in zip(results, targets, strict=True)]
                for n in range(size)
            }

        own: list[Any] = self._met(("whole arrays", grid), self.rank, [np.array(x) for x in blocks], size, call)
        return own

    def _met(
        self, group: Any, own: Any, given: Any, n: int, compute: Callable[[dict[Any, Any]], dict[Any, Any]]
    ) -> Any:
        """The part of this device in what the last of ``n`` members that comes has computed for all."""
        self._counts[group] = number = self._counts.get(group, 0) + 1
        key = (*group, number)
        world = self._world
        with world.changed:
            meeting = world.meetings.setdefault(key, _Meeting())
            meeting.given[own] = given
            if len(meeting.given) == n:
                meeting.found = compute(meeting.given)
                world.changed.notify_all()
            world.wait(lambda: meeting.found is not None, group[0])
            assert meeting.found is not None  # it was waited for
            return meeting.found[own]

    def _message(self, name: str, group: Any, own: tuple[int, ...], x: Any, options: dict[str, Any]) -> Any:
        world = self._world
        with world.changed:
            if name == "send":
                key = (group, tuple(options["destination"]))
                world.sent.setdefault(key, deque()).append((own, np.array(x)))
                world.changed.notify_all()
                return None
            source = options.get("source")
            box = world.sent.setdefault((group, own), deque())

            def matching() -> Any:
                return next((each for each in box if source is None or each[0] == tuple(source)), None)

            world.wait(lambda: matching() is not None, "shard.recv")
            found = matching()
            box.remove(found)
            return found[1]


def _together(
    name: str, given: dict[tuple[int, ...], Any], sizes: Sequence[int], options: dict[str, Any], shape: Sequence[int]
) -> dict[tuple[int, ...], Any]:
    if name == "update_halo":
        return _filled(given, options["split_axes"], options["halo_sizes"], shape)
    members = [tuple([int(n) for n in index]) for index in np.ndindex(*sizes)] if sizes else [()]
    return dict(zip(members, _RULES[name]([given[each] for each in members], sizes, **options), strict=True))


def run_reference(module: ModuleOp, name: str | None, grids: dict[str, Grid], inputs: Sequence[Arrays]) -> list[Any]:
    """The results of a function by device.  Local.  ``inputs``: the arguments by device.

    Raises the first error of a device.
    """
    world = ReferenceWorld()
    results: list[Any] = [None] * len(inputs)
    errors: list[BaseException] = []

    def device(number: int) -> None:
        try:
            results[number] = FunctionRunner(module, ReferenceDevice(world, grids, number, len(inputs))).call(
                name, inputs[number]
            )
        except BaseException as error:
            with world.changed:
                errors.append(error)
                world.failed = True
                world.changed.notify_all()

    threads = [
        threading.Thread(target=copy_context().run, args=(device, number), daemon=True) for number in range(len(inputs))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    return results
