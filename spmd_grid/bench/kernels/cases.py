"""The rows of the kernel benchmark: copies, folds and random numbers, and what numpy does with the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import numpy as np

from spmd_grid import kernels
from spmd_grid.reduction_kind import KINDS

__all__ = ["KernelCase", "all_cases", "quick_cases"]

Calls = tuple[Callable[[], object], Callable[[], object]]

_NUMPYS = {"UNIFORM": "random", "NORMAL": "standard_normal", "EXPONENTIAL": "standard_exponential"}


@dataclass(frozen=True)
class KernelCase:
    """``make()`` gives our call and numpy's on new arrays; ``goal``: time of numpy divided by ours, at least."""

    group: str
    what: str
    make: Callable[[], Calls]
    goal: float = 0.95

    @property
    def name(self) -> str:
        return f"{self.group}: {self.what}"


def all_cases() -> list[KernelCase]:
    return [*_copies(), *_transposes(), *_folds(), *_random_numbers()]


def quick_cases() -> list[KernelCase]:
    return all_cases()[::8]


def copy_calls(source: np.ndarray, target: np.ndarray) -> Calls:
    """Our kernel on a ready table, and ``numpy.copyto``."""
    s, t = kernels.flatten(source), kernels.flatten(target)
    row = kernels.box_row(target.shape, t.itemsize, s.strides, 0, t.strides, 0)
    copy_boxes, boxes = kernels.copy_boxes, kernels.build_table([row])
    kept = source, target  # kept alive, since the kernel only has their addresses

    def ours(kept: tuple[np.ndarray, np.ndarray] = kept) -> None:
        copy_boxes(boxes, s.address, t.address)

    return ours, partial(np.copyto, target, source)


def _copies() -> Iterator[KernelCase]:
    def contiguous(n: int) -> Calls:
        return copy_calls(np.ones(n), np.zeros(n))

    def rows(count: int, run: int) -> Calls:
        return copy_calls(np.ones((count, 2 * run), np.uint8)[:, :run], np.zeros((count, run), np.uint8))

    def short_runs(count: int, size: int) -> Calls:
        source, target = np.ones((count, 4 * size), np.uint8)[:, :size], np.zeros((count, size), np.uint8)
        if size in (1, 2, 4, 8):  # one numpy item each, which is fastest for numpy
            source, target = source.view(f"u{size}"), target.view(f"u{size}")
        return copy_calls(source, target)

    def boxed(index: tuple[slice, ...]) -> Calls:
        return copy_calls(np.ones((128, 128, 128))[index], np.zeros((128, 128, 128))[index])

    for n in (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23):
        yield KernelCase("contiguous", f"{8 * n} bytes", partial(contiguous, n))
    for count, run in ((512, 4096), (4096, 16384), (8192, 32768)):
        yield KernelCase("rows", f"{count} of {run} bytes, every 2nd", partial(rows, count, run))
    for size in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512):
        for count in (1_000, 100_000):
            goal = 2.0 if 8 <= size <= 128 else 0.95
            yield KernelCase(
                "short runs", f"{count} of {size} bytes, every 4th", partial(short_runs, count, size), goal
            )
    for name, index in (
        ("face 2 x 124 x 124", np.s_[:2, 2:-2, 2:-2]),
        ("face 124 x 2 x 124", np.s_[2:-2, :2, 2:-2]),
        ("face 124 x 124 x 2", np.s_[2:-2, 2:-2, :2]),
        ("core 124 x 124 x 124", np.s_[2:-2, 2:-2, 2:-2]),
        ("box 30 x 20 x 10", np.s_[2:32, 2:22, 2:12]),
    ):
        yield KernelCase("boxes", f"{name} doubles of 128^3", partial(boxed, index))


def _transposes() -> Iterator[KernelCase]:
    def turned(shape: tuple[int, ...], dtype: str, axes: tuple[int, ...]) -> Calls:
        source = np.ones(shape, dtype).transpose(axes)
        return copy_calls(source, np.zeros(source.shape, dtype))

    def fresh(n: int) -> Calls:
        source = np.ones((n, n))
        ours, _ = copy_calls(source.T, np.zeros((n, n)))
        return ours, lambda: np.ascontiguousarray(source.T)

    for n in (64, 256, 1000, 1024, 4096):
        yield KernelCase("transposed", f"{n} x {n} float64", partial(turned, (n, n), "f8", (1, 0)), 2.0)
    yield KernelCase("transposed", "1024 x 1024 float64, ascontiguousarray(x.T)", partial(fresh, 1024), 2.0)
    for dtype in ("i1", "i2", "f4", "c16"):
        name = f"1000 x 1000 {np.dtype(dtype).name}"
        yield KernelCase("transposed", name, partial(turned, (1000, 1000), dtype, (1, 0)), 2.0)
    for n, axes in ((128, (2, 1, 0)), (128, (2, 0, 1)), (128, (1, 2, 0)), (256, (2, 1, 0)), (256, (1, 2, 0))):
        name = f"{n}^3 float64, axes {axes}"
        yield KernelCase("transposed", name, partial(turned, (n, n, n), "f8", axes), 2.0)
    yield KernelCase("transposed", "128^3 float64, axes (1, 0, 2)", partial(turned, (128,) * 3, "f8", (1, 0, 2)))


def _folds() -> Iterator[KernelCase]:
    def folded(kind: str, dtype: str, rows: int, n: int) -> Calls:
        stack, out = (np.random.default_rng(0).normal(size=(rows, n)) * 10).astype(dtype), np.zeros(n, dtype)
        combine = KINDS[kind].combine

        def row_by_row() -> None:
            combine(stack[0], stack[1], out=out)
            for row in stack[2:]:
                combine(out, row, out=out)

        return partial(kernels.fold, kind, stack, out), row_by_row

    for dtype, kind in (("float64", "sum"), ("float64", "max"), ("float32", "sum"), ("int32", "sum")):
        for rows, n in ((2, 128), (4, 1024), (4, 8192), (8, 65536), (2, 1 << 20), (8, 1 << 20)):
            yield KernelCase(
                "fold", f"{kind} of {rows} rows of {n} {dtype}", partial(folded, kind, dtype, rows, n), 0.0
            )


def _random_numbers() -> Iterator[KernelCase]:
    """Numbers of a million cells; numpy draws from its own Philox.  At most 1.2 times its time per number."""
    n = 1 << 20
    firsts, key = np.zeros(1, np.uint64), np.random.SeedSequence(1).generate_state(2, np.uint64)
    where = firsts, np.uint64(0), *key

    def floats(kind: str, dtype: str, numpys: str) -> Calls:
        compiled = import_module("spmd_grid.kernels.random_floats")
        out, generator = np.zeros((1, n), dtype), np.random.Generator(np.random.Philox(1))
        fill = getattr(compiled, f"fill_{dtype}")
        bits = np.finfo(dtype).nmant + 1
        ours = partial(fill, out, *where, getattr(compiled, kind), bits, 0.0, 1.0)
        return ours, partial(getattr(generator, numpys), out=out[0], dtype=np.dtype(dtype).type)

    def integers(span: int) -> Calls:
        compiled = import_module("spmd_grid.kernels.random_integers")
        out, generator = np.zeros((1, n), np.uint64), np.random.Generator(np.random.Philox(1))
        ours = partial(compiled.fill_uint64, out, *where, np.uint64(0), np.uint64(span))
        return ours, lambda: generator.integers(0, span, n, np.uint64)

    def permuted(n: int) -> Calls:
        compiled = import_module("spmd_grid.kernels.random_integers")
        out, generator = np.zeros(n, np.int64), np.random.Generator(np.random.Philox(1))
        keys = np.random.Philox(1).random_raw(compiled.ROUNDS)
        bits = np.uint64((n - 1).bit_length())
        ours = partial(compiled.fill_permutation, out, np.uint64(0), np.uint64(n), bits, keys)
        return ours, lambda: generator.permutation(n)

    for dtype in ("float64", "float32"):
        for kind, numpys in _NUMPYS.items():
            name = f"{n} numbers, {kind.lower()} {dtype}"
            yield KernelCase("random", name, partial(floats, kind, dtype, numpys), 1 / 1.2)
    for span in (10, 3 << 30, 1 << 40):
        yield KernelCase("random", f"{n} integers below {span}", partial(integers, span), 1 / 1.2)
    for m in (n, n + 1):
        yield KernelCase("random", f"permutation of {m}", partial(permuted, m), 1 / 1.2)
