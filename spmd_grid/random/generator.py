"""Random numbers by counter: every process draws the cells that it holds, and nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from spmd_grid.array import ShardedArray, empty
from spmd_grid.errors import DTypeError, ShardingError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = ["Generator"]


class Generator:
    """A source of random sharded arrays: equal bits for every grid, every sharding and every number of processes.

    Local, called alike by every process: each method is a draw, and draws are counted.  ``seed``: a whole number, a
    list of them, or a ``numpy.random.SeedSequence``.  Halo cells in the domain hold their owners' numbers; those
    outside are 0.

    The bits are those of numpy's ``Philox``: draw number k, from 0, has the words of ``Philox(seed)`` with the counter
    ``[0, 0, k, 0]``, and `random` and `uniform` give numpy's numbers.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     return sg.random.Generator(7).random((4,), sg.Sharding(grid, [[0]]), grid).to_global()
    >>> found = sg.run_spmd(body, ranks=3)[0]
    >>> bool(np.all(found == np.random.Generator(np.random.Philox(7)).random(4)))
    True
    """

    def __init__(self, seed: int | Sequence[int] | np.random.SeedSequence = 0):
        self._seeds = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._key = self._seeds.generate_state(2, np.uint64)
        self._draws = 0

    def spawn(self, n: int) -> list[Generator]:
        """``n`` generators with streams of their own.  Local."""
        return [Generator(seeds) for seeds in self._seeds.spawn(n)]

    def random(
        self, shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype: Any = "float64"
    ) -> ShardedArray:
        """Numbers of [0, 1), all equally likely."""
        return self._floats("fill_uniforms", shape, sharding, grid, dtype)

    def uniform(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        low: float = 0.0,
        high: float = 1.0,
        dtype: Any = "float64",
    ) -> ShardedArray:
        """Numbers of [low, high), all equally likely."""
        return self._floats("fill_uniforms", shape, sharding, grid, dtype, lambda x: low + (high - low) * x)

    def standard_normal(
        self, shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype: Any = "float64"
    ) -> ShardedArray:
        """Normal numbers of mean 0 and variance 1, by the ziggurat method."""
        return self._floats("fill_normals", shape, sharding, grid, dtype)

    def normal(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        loc: float = 0.0,
        scale: float = 1.0,
        dtype: Any = "float64",
    ) -> ShardedArray:
        """Normal numbers of mean ``loc`` and standard deviation ``scale``."""
        return self._floats("fill_normals", shape, sharding, grid, dtype, lambda x: loc + scale * x)

    def exponential(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        scale: float = 1.0,
        dtype: Any = "float64",
    ) -> ShardedArray:
        """Exponential numbers of mean ``scale``."""
        return self._floats("fill_exponentials", shape, sharding, grid, dtype, lambda x: scale * x)

    def integers(
        self,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        low: int = 0,
        high: int = 2,
        dtype: Any = "int64",
    ) -> ShardedArray:
        """Whole numbers of [low, high), all equally likely.  Raises `DTypeError` where ``dtype`` cannot hold them."""
        kind = np.dtype(dtype)
        if kind.kind not in "iu":
            raise DTypeError(f"integers: dtype is {kind}; it must be of integers")
        if not all(isinstance(bound, int | np.integer) for bound in (low, high)):
            raise DTypeError(f"integers: low is {low!r} and high {high!r}; they must be whole numbers")
        low, high = int(low), int(high)
        limits = np.iinfo(kind)
        if not limits.min <= low < high <= int(limits.max) + 1:
            raise DTypeError(f"integers: low is {low} and high {high}; low < high, and both must fit {kind}")
        result = empty(shape, sharding, grid, kind)

        def fill(words: np.ndarray, *where: Any) -> np.ndarray:
            _kernels().fill_integers(words, *where, np.uint64((high - low) % 2**64))
            return words + np.uint64(low % 2**64)  # modulo 2**64, as the casts below

        return self._filled(result, fill)

    def _floats(
        self,
        kernel: str,
        shape: Sequence[int],
        sharding: Sharding,
        grid: ProcessGrid,
        dtype: Any,
        scaled: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> ShardedArray:
        kind = np.dtype(dtype)
        if kind.kind != "f":
            raise DTypeError(f"{kernel.removeprefix('fill_')}: dtype is {kind}; it must be of floating-point numbers")
        result = empty(shape, sharding, grid, kind)

        def fill(words: np.ndarray, *where: Any) -> np.ndarray:
            numbers = words.view(np.float64)
            getattr(_kernels(), kernel)(numbers, words, *where)
            if kernel == "fill_uniforms" and kind.itemsize < 8:  # drop bits that could round a number up to 1
                scale = 2.0 ** (np.finfo(kind).nmant + 1)
                numbers = np.floor(numbers * scale) / scale
            return numbers if scaled is None else scaled(numbers)

        return self._filled(result, fill)

    def _filled(self, result: ShardedArray, fill: Callable[..., np.ndarray]) -> ShardedArray:
        """``result`` with what ``fill(words, firsts, stream, *key)`` makes of each of its rows."""
        if result.sharding.partial_axes:
            raise ShardingError("random: the sharding has partial_axes; random numbers are whole values")
        stream, self._draws = np.uint64(self._draws), self._draws + 1
        layout, local, coords = result.layout, result.stored, result.grid.own_coords
        box = layout.local_box(coords).intersect(layout.domain_box)
        inside = layout.in_domain_local(coords).slices()
        if local.size != box.size:
            local[...] = 0
        if not box.size:
            return result.with_fresh_halos()
        target = local[inside]
        firsts = _first_cells(box.starts, box.stops, layout.global_shape)
        direct = target.flags.c_contiguous and target.dtype.itemsize == 8
        words = (target if direct else np.empty(target.shape, np.uint64)).reshape(len(firsts), -1).view(np.uint64)
        found = fill(words, firsts, stream, *self._key)
        if not direct or found.base is None or not np.may_share_memory(found, target):
            target[...] = found.reshape(target.shape).astype(target.dtype, copy=False)
        return result.with_fresh_halos()


def _first_cells(starts: Sequence[int], stops: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """The row-major global index of the first cell of every row of a box."""
    firsts = np.zeros((), np.uint64)
    for dim, (start, stop, extent) in enumerate(zip(starts, stops, shape)):
        is_last = dim == len(shape) - 1
        cells = np.arange(start, start + 1 if is_last else stop, dtype=np.uint64)
        firsts = (firsts[..., None] * np.uint64(extent) + cells).astype(np.uint64)
    return np.ascontiguousarray(firsts.reshape(-1))


def _kernels() -> Any:
    return import_module("spmd_grid.kernels.philox")
