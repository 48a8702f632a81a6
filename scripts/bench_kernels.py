"""Time the compiled kernels against numpy: one line per case, medians of interleaved runs in microseconds.

Run it on a quiet machine: ``python scripts/bench_kernels.py [call] [copy] [fold]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from spmd_grid import kernels
from spmd_grid.reduction_kind import KINDS


def interleaved(functions: Sequence[Callable], seconds: float = 0.5, at_least: int = 7) -> list[float]:
    """The median microseconds of one call of each of ``functions``, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    loops = []
    for function in functions:
        function()
        start = perf_counter()
        function()
        loops.append(max(1, int(1e-4 / (perf_counter() - start))))
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[0]) < at_least:
        for function, count, taken in zip(functions, loops, times, strict=True):
            start = perf_counter()
            for _ in range(count):
                function()
            taken.append((perf_counter() - start) / count)
    return [median(taken) * 1e6 for taken in times]


def head(title: str) -> None:
    print(f"\n{title:52} {'ours us':>11} {'numpy us':>11} {'ratio':>7}")


def compare(name: str, ours: Callable, numpys: Callable, seconds: float = 0.5) -> None:
    a, b = interleaved([ours, numpys], seconds)
    print(f"{name:52} {a:11.2f} {b:11.2f} {b / a:7.2f}", flush=True)


def whole_table(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The table that copies all of ``source`` to ``target``, and the two base addresses."""
    s, t = kernels.flatten(source), kernels.flatten(target)
    row = kernels.box_row(target.shape, t.itemsize, s.strides, 0, t.strides, 0)
    return kernels.build_table([row]), s.address, t.address


def copy_cases() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for n in (1 << 10, 1 << 14, 1 << 22):
        yield f"contiguous {n} float64", np.ones(n), np.zeros(n)
    for rows, run in ((512, 512), (4096, 2048)):
        yield f"rows {rows} x {run * 8} bytes of twice that", np.ones((rows, 2 * run))[:, :run], np.zeros((rows, run))
    for size in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512):
        for rows in (1000, 100000):
            source, target = np.ones((rows, 4 * size), np.uint8)[:, :size], np.zeros((rows, size), np.uint8)
            if size in (1, 2, 4, 8):  # one item of numpy's, for numpy's best
                source, target = source.view(f"u{size}"), target.view(f"u{size}")
            yield f"runs {rows} x {size} bytes, every 4th", source, target
    for rows, cols in ((1024, 1024), (4096, 512), (1000, 1000)):
        big = np.ones((rows, cols))
        yield f"last column of {rows} x {cols} float64, packed", big[:, -1], np.zeros(rows)
        yield f"packed into the last column of {rows} x {cols}", np.ones(rows), big[:, -1]
        yield f"column to column of {rows} x {cols}", big[:, 0], np.ones((rows, cols))[:, -1]
        yield f"8 last columns of {rows} x {cols} float64", big[:, -8:], np.zeros((rows, 8))
    for n in (64, 256, 1000, 1024, 4096):
        yield f"transposed {n} x {n} float64", np.ones((n, n)).T, np.zeros((n, n))
    for dtype in ("int8", "int16", "float32", "complex128"):
        yield f"transposed 1000 x 1000 {dtype}", np.ones((1000, 1000), dtype).T, np.zeros((1000, 1000), dtype)
    cube, other = np.ones((128, 128, 128)), np.zeros((128, 128, 128))
    for axes in ((2, 1, 0), (2, 0, 1), (1, 2, 0), (1, 0, 2)):
        yield f"128^3 float64, axes {axes}", cube.transpose(axes), other
    for name, box in (
        ("face 2 x 124 x 124", np.s_[:2, 2:-2, 2:-2]),
        ("face 124 x 2 x 124", np.s_[2:-2, :2, 2:-2]),
        ("face 124 x 124 x 2", np.s_[2:-2, 2:-2, :2]),
        ("face 124 x 124 x 1", np.s_[2:-2, 2:-2, :1]),
        ("core 124^3", np.s_[2:-2, 2:-2, 2:-2]),
        ("box 30 x 20 x 10", np.s_[2:32, 2:22, 2:12]),
    ):
        yield f"128^3 float64, {name}", cube[box], other[box]
    wide = np.zeros((1000, 1000))
    yield "broadcast 1000 x 1000 from a row", np.broadcast_to(np.ones(1000), wide.shape), wide
    yield "broadcast 1000 x 1000 from a column", np.broadcast_to(np.ones((1000, 1)), wide.shape), wide
    yield "reversed 1000 x 1000", np.ones((1000, 1000))[::-1, ::-1], wide


def bench_copy() -> None:
    head("copy_boxes, numpy.copyto")
    for name, source, target in copy_cases():
        ours = partial(kernels.copy_boxes, *whole_table(source, target))
        compare(name, ours, partial(np.copyto, target, source))


def bench_call() -> None:
    head("one call")
    source, target = np.ones(4), np.zeros(4)
    table, *bases = whole_table(source, target)
    numpys = partial(np.copyto, target, source)
    compare("copy_boxes, 1 row of 32 bytes", partial(kernels.copy_boxes, table, *bases), numpys)
    arrays = [np.array([base]) for base in bases]
    compare("copy_boxes_between, 1 row of 32 bytes", partial(kernels.copy_boxes_between, table, *arrays), numpys)
    compare("flatten, x.ctypes.data", partial(kernels.flatten, source), lambda: source.ctypes.data)
    box = partial(kernels.box_row, (3, 4, 5), 8, (800, 80, 8), 0, (160, 40, 8), 0)
    compare("box_row in 3-d, nothing", box, lambda: None)
    compare("build_table of 10 rows, nothing", partial(kernels.build_table, [box()] * 10), lambda: None)


def ufunc_rows(combine: np.ufunc, stack: np.ndarray, out: np.ndarray) -> None:
    combine(stack[0], stack[1], out=out)
    for row in stack[2:]:
        combine(out, row, out=out)


def bench_fold() -> None:
    head("fold, numpy's ufunc row by row")
    rng = np.random.default_rng(0)
    shapes = ((2, 128), (4, 128), (4, 1024), (4, 2048), (4, 8192), (8, 65536), (2, 1 << 20), (8, 1 << 20))
    for dtype, kinds in (
        ("float64", ("sum", "max")),
        ("float32", ("sum",)),
        ("int32", ("sum",)),
        ("int8", ("sum",)),
        ("bool", ("sum",)),
        ("complex128", ("sum", "max", "product")),
    ):
        for kind in kinds:
            for rows, n in shapes:
                stack, out = (rng.normal(size=(rows, n)) * 10).astype(dtype), np.zeros(n, dtype)
                numpys = partial(ufunc_rows, KINDS[kind].combine, stack, out)
                compare(f"{kind} {dtype} {rows} x {n}", partial(kernels.fold, kind, stack, out), numpys, 0.2)


if __name__ == "__main__":
    for part in sys.argv[1:] or ("call", "copy", "fold"):
        {"call": bench_call, "copy": bench_copy, "fold": bench_fold}[part]()
