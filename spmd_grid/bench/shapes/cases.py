"""The rows of the shapes benchmark: operations on arrays of equally many cells, from one row to one column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["OPERATIONS", "Operation", "Parts", "ShapesCase", "all_cases", "quick_cases"]

_CELLS, _FEW_CELLS = 3 << 18, 3 << 14
_PLANS_MS, _FILES_MS = 30.0, 150.0  # what planning takes, and writing to a disk


class Parts(NamedTuple):
    """The arguments of an operation: ``sg``, the package; an array ``a``; ``x``, a plain one of its shape; a folder."""

    sg: Any
    grid: Any
    a: Any
    x: np.ndarray
    folder: Path

    def cut(self, *dims: int, **options: Any) -> Any:
        """A sharding of the array along these dimensions, in turns over the grid's axes."""
        axes = [[0] if d in dims else [] for d in range(self.a.ndim)]
        return self.sg.Sharding(self.grid, axes, **options)

    @property
    def dim(self) -> int:
        """The dimension that is cut."""
        return int(next(d for d in range(self.a.ndim) if self.a.sharding.axes_of(d)))

    @property
    def long(self) -> int:
        """The longest dimension."""
        return int(np.argmax(self.x.shape))


class Operation(NamedTuple):
    """``run`` of all processes; ``numpy``: the same on a block ``b``, if that takes longer than to copy it.

    ``fixed_ms``: what it may take besides; ``plain``: it takes ``x``, so that the cut of ``a`` does not matter.
    """

    run: Callable[[Parts], Any]
    numpy: Callable[[np.ndarray, Parts], Any] | None = None
    fixed_ms: float = 0.25
    plain: bool = False


@dataclass(frozen=True)
class ShapesCase:
    """An operation on doubles of ``shape``, cut along ``dim``."""

    operation: str
    shape: tuple[int, ...]
    dim: int

    @property
    def name(self) -> str:
        return f"{self.operation}, {'x'.join(map(str, self.shape))} cut along {self.dim}"


def all_cases() -> list[ShapesCase]:
    return _cases(_CELLS, list(OPERATIONS))


def quick_cases() -> list[ShapesCase]:
    return _cases(_FEW_CELLS, ["slice", "roll"])


def _cases(n: int, operations: list[str]) -> list[ShapesCase]:
    side = 1 << (n.bit_length() - 1) // 2
    shapes = [(n,), (1, n), (3, n // 3), (side, n // side), (n // 3, 3), (n, 1), (2, n // 4, 2)]
    cuts = [(op, shape, 1 if OPERATIONS[op].plain else len(shape)) for op in operations for shape in shapes]
    return [ShapesCase(op, shape, d) for op, shape, n_cuts in cuts for d in range(n_cuts)]


# -- what is measured ----------------------------------------------------------------------------------------------


def _put(p: Parts) -> None:
    p.a[1:] = p.a[:-1]


def _moved_by_a_cell(p: Parts) -> Any:
    n, size = p.a.shape[p.dim], p.grid.size
    inner = [min(n, n * k // size + 1) for k in range(1, size)]
    return p.a.reshard(p.cut(p.dim, sharded_dims_offsets=[[0, *inner, n]]))


def _halo(p: Parts) -> Any:
    return p.cut(p.dim, halo_sizes=[1, 1])


def _exchange(p: Parts) -> Any:
    u = p.sg.zeros(p.a.shape, _halo(p), p.grid)
    exchange = p.sg.HaloExchange(p.grid, _halo(p), p.a.shape, "f8")
    exchange.update(u)
    return exchange.accumulate(u)


def _saved(p: Parts) -> Any:
    p.sg.save(p.folder / "a", {"a": p.a})
    return p.sg.load(p.folder / "a", {"a": p.a.sharding}, p.grid)


def _twice(b: np.ndarray, p: Parts) -> Any:
    return np.concatenate([b, b])


def _turned(b: np.ndarray, p: Parts) -> Any:
    return np.ascontiguousarray(b.T)


def _plain(run: Callable[[Parts], Any], numpy: Callable[[np.ndarray, Parts], Any] | None = None) -> Operation:
    """A collective operation on the plain array, compared with numpy on it, or with a copy of it."""
    by_numpy = (lambda x, p: x.copy()) if numpy is None else numpy
    return Operation(run, lambda b, p: by_numpy(p.x, p), plain=True)


OPERATIONS: Mapping[str, Operation] = {
    "slice": Operation(lambda p: p.a[1:]),
    "last slice": Operation(lambda p: p.a[..., 1:]),
    "put": Operation(_put, _twice),
    "list": Operation(lambda p: p.a[[0, p.a.shape[0] - 1]]),
    "backwards": Operation(lambda p: p.a[..., ::-1], lambda b, p: b[..., ::-1].copy()),
    "roll": Operation(lambda p: np.roll(p.a, 1, p.dim), _twice),
    "append": Operation(lambda p: np.append(p.a, p.a[:1], 0), _twice),
    "concatenate": Operation(lambda p: np.concatenate([p.a, p.a], p.dim), lambda b, p: (_twice(b, p), _twice(b, p))),
    "delete": Operation(lambda p: np.delete(p.a, 0, p.long), _twice),
    "insert": Operation(lambda p: np.insert(p.a, 1, 7.0, p.long), _twice),
    "pad": Operation(lambda p: np.pad(p.a, 1), lambda b, p: np.pad(b, 1)),
    "diff": Operation(lambda p: np.diff(p.a, axis=p.long), lambda b, p: (np.diff(b, axis=p.long), b.copy())),
    "gradient": Operation(lambda p: np.gradient(p.a, axis=p.long), lambda b, p: np.gradient(b, axis=p.long)),
    "cumsum": Operation(lambda p: np.cumsum(p.a, p.long), lambda b, p: np.cumsum(b, p.long)),
    "sum": Operation(lambda p: np.sum(p.a, p.long), lambda b, p: np.sum(b, p.long)),
    "transpose": Operation(lambda p: p.a.T + 0, _turned),
    "ravel": Operation(lambda p: np.ravel(p.a), _twice),
    "rows to columns": Operation(lambda p: p.a.reshard(p.cut(p.a.ndim - 1 - p.dim)), _turned),
    "to all": Operation(lambda p: p.a.reshard(p.cut()), _twice),
    "border moved": Operation(_moved_by_a_cell, fixed_ms=_PLANS_MS),
    "update_halo": Operation(lambda p: p.sg.zeros(p.a.shape, _halo(p), p.grid).update_halo(), _twice),
    "HaloExchange": Operation(_exchange, _twice, fixed_ms=_PLANS_MS),
    "all_gather": _plain(lambda p: p.sg.all_gather(p.x, p.grid, [0], p.long), _twice),
    "all_reduce": _plain(lambda p: p.sg.all_reduce(p.x, p.grid), lambda x, p: (x + x, x.copy())),
    "all_to_all": _plain(lambda p: p.sg.all_to_all(p.x, p.grid, [0], p.long, p.long)),
    "reduce_scatter": _plain(
        lambda p: p.sg.reduce_scatter(p.x, p.grid, [0], scatter_dim=p.long), lambda x, p: (x + x, x.copy())
    ),
    "broadcast": _plain(lambda p: p.sg.broadcast(p.x, p.grid, [0], [0])),
    "shift": _plain(lambda p: p.sg.shift(p.x, p.grid, [0], 0, 1)),
    "gather": _plain(lambda p: p.sg.gather(p.x, p.grid, [0], p.long, [0]), _twice),
    "scatter": _plain(lambda p: p.sg.scatter(p.x, p.grid, [0], p.long, [0])),
    "to_global": Operation(lambda p: p.a.to_global(), _twice),
    "from_global": Operation(lambda p: p.sg.from_global(p.x, p.a.sharding, p.grid), _twice),
    "from_function": Operation(
        lambda p: p.sg.from_function(lambda *i: i[-1] * 1.0, p.a.shape, p.a.sharding, p.grid),
        lambda b, p: np.broadcast_to(np.arange(b.shape[-1]) * 1.0, b.shape).copy(),
    ),
    "save and load": Operation(_saved, fixed_ms=_FILES_MS),
}
