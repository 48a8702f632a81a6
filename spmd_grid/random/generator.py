"""Random numbers by counter: every process draws the cells that it holds, and nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array import ShardedArray, empty
from spmd_grid.errors import ArgumentError, DTypeError, ShapeError, ShardingError
from spmd_grid.grid.box import Box, as_ints
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import as_dtype
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Generator"]

_MOST_KEPT = 1024
_INT64 = np.dtype(np.int64)

# Writes the numbers of rows of cells into an array of two dimensions: called with the array, the global index of each
# row's first cell, the stream and the two words of the key.
Fill = Callable[..., None]


class Generator:
    """A source of random sharded arrays: equal bits for every grid, every sharding and every number of processes.

    Local, called alike by every process: each method is a draw, and draws are counted.  ``seed``: a whole number, a
    list of them, or a ``numpy.random.SeedSequence``.  Halo cells in the domain hold their owners' numbers; those
    outside are 0.

    The bits are those of numpy's ``Philox``: draw number k, from 0, has the words of ``Philox(seed)`` with the counter
    ``[0, 0, k, 0]``.  `random`, `uniform` and `integers` give numpy's numbers, except that a cell whose words are
    rejected goes on with words of its own.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     return sg.random.Generator(7).random((4,), sg.Sharding(grid, [[0]]), grid).to_global()
    >>> found = sg.run_spmd(body, ranks=3)[0]
    >>> bool(np.all(found == np.random.Generator(np.random.Philox(7)).random(4)))
    True
    """

    def __init__(self, seed: int | Sequence[int] | np.random.SeedSequence = 0):
        if not isinstance(seed, np.random.SeedSequence):
            numbers = as_ints([seed]) or as_ints(seed)
            if numbers is None or min(numbers, default=0) < 0:
                raise ArgumentError(f"Generator: seed is {seed!r}; it must be a whole number from 0, or a list of them")
            seed = np.random.SeedSequence(numbers if isinstance(seed, Iterable) else numbers[0])
        self._seeds = seed
        self._key = self._seeds.generate_state(2, np.uint64)
        self._draws = 0

    def spawn(self, n: int) -> list[Generator]:
        """``n`` generators with streams of their own.  Local."""
        return [Generator(seeds) for seeds in self._seeds.spawn(n)]

    @property
    def state(self) -> dict[str, Any]:
        """Everything that the following draws depend on, as numbers and lists: see `from_state`.  Local."""
        seeds = self._seeds
        entropy = seeds.entropy
        return {
            "entropy": list(entropy) if isinstance(entropy, Sequence) else entropy,
            "spawn_key": list(seeds.spawn_key),
            "pool_size": seeds.pool_size,
            "n_children_spawned": seeds.n_children_spawned,
            "draws": self._draws,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Generator:
        """A generator that goes on where the one with this `state` stands.  Local."""
        seeds = {name: value for name, value in state.items() if name != "draws"}
        result = cls(np.random.SeedSequence(**seeds))
        result._draws = int(state["draws"])
        return result

    # -- floats ----------------------------------------------------------------------------------------------------

    def random(
        self, shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype: DTypeLike = "float64"
    ) -> ShardedArray:
        """Numbers in [0, 1), all equally likely."""
        return self._floats("UNIFORM", shape, sharding, grid, dtype)

    def uniform(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike = "float64",
    ) -> ShardedArray:
        """Numbers in [low, high), all equally likely."""
        low = _as_real("uniform", "low", low)
        return self._floats("UNIFORM", shape, sharding, grid, dtype, low, _as_real("uniform", "high", high) - low)

    def standard_normal(
        self, shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype: DTypeLike = "float64"
    ) -> ShardedArray:
        """Normal numbers of mean 0 and variance 1, by the ziggurat method."""
        return self._floats("NORMAL", shape, sharding, grid, dtype)

    def normal(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        loc: float = 0.0,
        scale: float = 1.0,
        dtype: DTypeLike = "float64",
    ) -> ShardedArray:
        """Normal numbers of mean ``loc`` and standard deviation ``scale``."""
        loc, scale = _as_real("normal", "loc", loc), _as_real("normal", "scale", scale)
        return self._floats("NORMAL", shape, sharding, grid, dtype, loc, scale)

    def exponential(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        scale: float = 1.0,
        dtype: DTypeLike = "float64",
    ) -> ShardedArray:
        """Exponential numbers of mean ``scale``, by the ziggurat method."""
        return self._floats("EXPONENTIAL", shape, sharding, grid, dtype, 0.0, _as_real("exponential", "scale", scale))

    def _floats(
        self,
        kind: str,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        dtype: DTypeLike,
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> ShardedArray:
        """``offset + scale * x``, computed in doubles, of numbers x of a standard distribution."""
        result = np.dtype(as_dtype("random", dtype))
        if result.kind != "f":
            raise DTypeError(f"{kind.lower()} numbers: dtype is {result}; it must be of floating-point numbers")
        kernel, number, bits, name = _float_kernel(kind, result)

        def fill(cells: np.ndarray, *where: Any) -> None:
            kernel(cells, *where, number, bits, offset, scale)

        return self._filled(shape, sharding, grid, result, name, fill)

    # -- integers --------------------------------------------------------------------------------------------------

    def integers(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        low: int = 0,
        high: int = 2,
        dtype: DTypeLike = "int64",
    ) -> ShardedArray:
        """Whole numbers in [low, high), all equally likely.  Raises `DTypeError` where ``dtype`` cannot hold them.

        Up to 2**32 different ones take 32 bits of the stream each, more of them 64.
        """
        result = np.dtype(as_dtype("integers", dtype))
        if result.kind not in "iu":
            raise DTypeError(f"integers: dtype is {result}; it must be of integers")
        if not all(isinstance(bound, int | np.integer) for bound in (low, high)):
            raise DTypeError(f"integers: low is {low!r} and high {high!r}; they must be whole numbers")
        low, high = int(low), int(high)
        limits = np.iinfo(result)
        if not limits.min <= low < high <= int(limits.max) + 1:
            raise DTypeError(f"integers: low is {low} and high {high}; low < high, and both must fit {result}")
        bounds = np.uint64(low % 2**64), np.uint64((high - low) % 2**64)
        name = "uint64" if result.itemsize == 8 else "uint32"

        def fill(cells: np.ndarray, *where: Any) -> None:
            getattr(_kernels("random_integers"), f"fill_{name}")(cells, *where, *bounds)

        return self._filled(shape, sharding, grid, result, np.dtype(name), fill)

    def permutation(self, n: int, sharding: Sharding, grid: ProcessGrid) -> ShardedArray:
        """The numbers of ``range(n)`` in random order, as an array of ``n`` 64-bit integers.

        No process holds more of it than its cells: a cell's number is the image of its index under a bijection that the
        draw chooses.  The bijection is a Feistel network of 24 rounds on the least power of two that is not below ``n``
        and 256, applied until the image is below ``n``, on average at most twice where n > 128.  R. Mitchell, D.
        Stokes, E. Frank, G. Holmes, "Bandwidth-Optimal Random Shuffling for GPUs" (2022), found the permutations of
        this network to pass tests of uniformity as well as shuffles do.  It is for simulation, not for secrets; and as
        in every generator whose state is shorter, not all of the n! permutations can occur: there are 2**128 keys.

        Raises `ShapeError` for what is not the length of an array.

        >>> import spmd_grid as sg
        >>> def body():
        ...     grid = sg.init_grid((3,))
        ...     return sg.random.Generator(7).permutation(5, sg.Sharding(grid, [[0]]), grid).to_global().tolist()
        >>> sorted(sg.run_spmd(body, ranks=3)[0])
        [0, 1, 2, 3, 4]
        """
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or not 0 <= n < 2**63:
            raise ShapeError(f"permutation: n is {n!r}; it must be the length of an array")
        bits = np.uint64(max(8, (int(n) - 1).bit_length()))

        def fill(cells: np.ndarray, firsts: np.ndarray, *stream_and_key: Any) -> None:
            kernels = _kernels("random_integers")
            keys = np.empty(kernels.ROUNDS, np.uint64)
            _kernels("philox").fill_keys(keys, *stream_and_key)
            for row, first in zip(cells, firsts):
                kernels.fill_permutation(row, first, np.uint64(n), bits, keys)

        return self._filled((n,), sharding, grid, _INT64, _INT64, fill)

    # -- cells -----------------------------------------------------------------------------------------------------

    def _filled(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        dtype: np.dtype,
        written: np.dtype,
        fill: Fill,
    ) -> ShardedArray:
        """An array of ``dtype`` with the numbers that ``fill`` gives its cells, which writes ``written`` ones."""
        result, own = _new_array(shape, sharding, grid, dtype)
        stream, self._draws = np.uint64(self._draws), self._draws + 1
        local = target = result.stored
        if not own.is_full:
            local[...] = 0
            target = local[own.inside]
        firsts = own.firsts
        if len(firsts):
            is_direct = dtype.isnative and dtype.itemsize == written.itemsize and target.flags.c_contiguous
            cells = target.view(written) if is_direct else np.empty(target.shape, written)
            fill(cells.reshape(len(firsts), -1), firsts, stream, *self._key)
            if not is_direct:
                target[...] = cells  # integers keep their low bits
        return result.with_fresh_halos()


class _OwnCells:
    """This process's cells of the arrays of one layout: found once.

    ``inside``: those of the local array that lie in the domain, all of them if ``is_full``.  ``firsts``: see
    `_first_cells`.
    """

    __slots__ = ("firsts", "inside", "is_full", "layout", "shape")

    def __init__(self, layout: Layout, coords: MultiIndex):
        box = layout.local_box(coords).intersect(layout.domain_box)
        self.layout = layout
        self.shape = layout.local_shape(coords)
        self.inside = layout.in_domain_local(coords).slices()
        self.is_full = self.shape == box.shape
        self.firsts = _first_cells(box, layout.global_shape) if box.size else np.empty(0, np.uint64)


def _new_array(
    shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype: np.dtype
) -> tuple[ShardedArray, _OwnCells]:
    """A new array whose cells are not initialised, and this process's cells of it.  Local."""
    key = None
    if type(shape) is tuple and type(sharding) is Sharding and type(grid) is ProcessGrid:
        # With the types of the extents: 2.0 equals 2 but is refused.
        key = "random", shape, *map(type, shape), sharding, dtype
        own = grid.functions.get(key)
        if own is not None:
            grid.check_use("empty")
            return ShardedArray(grid.allocate(own.shape, dtype), own.layout, grid), own
    result = empty(shape, sharding, grid, dtype)
    if result.sharding.partial_axes:
        raise ShardingError("random: the sharding has partial_axes; random numbers are whole values")
    own = _OwnCells(result.layout, grid.own_coords)
    if key is not None:
        if len(grid.functions) >= _MOST_KEPT:
            grid.functions.clear()
        grid.functions[key] = own
    return result, own


def _as_real(op: str, what: str, value: object) -> float:
    """A real number as a float.  Local, before anything that depends on this process's cells."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DTypeError(f"{op}: {what} is {value!r}; it must be a real number")
    return float(value)


@lru_cache(64)
def _float_kernel(kind: str, dtype: np.dtype) -> tuple[Callable[..., None], int, int, np.dtype]:
    """(kernel, number of the ``kind``, bits of a uniform number, dtype that it writes) for arrays of ``dtype``."""
    name = "float64" if dtype.itemsize >= 8 else "float32"
    bits = min(np.finfo(dtype).nmant + 1, 53)  # more of them could round a uniform number up to 1
    kernels = _kernels("random_floats")
    return getattr(kernels, f"fill_{name}"), getattr(kernels, kind), bits, np.dtype(name)


def _first_cells(box: Box, shape: Shape) -> np.ndarray:
    """The row-major global index of the first cell of every run of cells of a box that follow one another.

    A run goes through the last dimensions that the box has whole, and one more.

    >>> _first_cells(Box((1, 0), (3, 5)), (4, 5)), _first_cells(Box((1, 2), (3, 5)), (4, 5))
    (array([5], dtype=uint64), array([ 7, 12], dtype=uint64))
    """
    along = len(shape) - 1
    while along > 0 and box.shape[along] == shape[along]:
        along -= 1
    firsts = np.zeros((), np.uint64)
    for dim, extent in enumerate(shape):
        start, stop = box.starts[dim], box.stops[dim]
        cells = np.arange(start, stop if dim < along else start + 1, dtype=np.uint64)
        firsts = (firsts[..., None] * np.uint64(extent) + cells).astype(np.uint64)
    return np.ascontiguousarray(firsts.reshape(-1))


@lru_cache(None)
def _kernels(module: str) -> Any:
    return import_module(f"spmd_grid.kernels.{module}")
