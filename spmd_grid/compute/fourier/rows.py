"""A transform along a dimension that stays cut, as it runs on one process: see `row_plan`."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from spmd_grid.compute.fourier.row_plan import CutTransform
from spmd_grid.compute.splits import block_starts
from spmd_grid.functions.axes import cut, laid_along
from spmd_grid.functions.linear.transforms import Transform
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = ["transform_row"]

# Factors are made for about this many cells at a time.
_CELLS_AT_ONCE = 1 << 14


def transform_row(row: CutTransform, block: np.ndarray, grid: ProcessGrid) -> np.ndarray:
    """This process's block of the result, from its block of the array.  Collective over the grid; behind the gate."""
    transform, dim = row.transform, row.transform.dim
    given = transform.dtype_after(block.dtype)
    first, cells = _aligned(row, block, np.result_type(given, np.complex64), grid)
    if transform.from_half:  # the real part of the sum over this half, inner cells twice, is the sum over all
        numbers = np.arange(first, first + cells.shape[dim])
        cells *= laid_along(np.where((numbers == 0) | (2 * numbers == transform.n), 1, 2), dim, cells.ndim)
    found = _convolved(row, cells, first, grid) if row.convolves else _in_four_steps(row, cells, grid)
    box = row.result.core_box(transform.shape_after(row.shape), grid.own_coords)
    found = found[cut(dim, 0, box.shape[dim])]
    if transform.from_half:
        found = found.real
    scale = _scale(transform)
    return found if scale == 1.0 else found * given.type(scale)


def _scale(transform: Transform) -> float:
    if transform.norm == "ortho":
        return 1 / sqrt(transform.n)
    return 1.0 if (transform.norm == "forward") is not transform.is_forward else 1 / transform.n


def _sign(transform: Transform) -> int:
    return -1 if transform.is_forward else 1


def _aligned(row: CutTransform, block: np.ndarray, dtype: np.dtype, grid: ProcessGrid) -> tuple[int, np.ndarray]:
    """(the number of the first cell, whole rows of the matrix of this process); cells that are missing are 0."""
    dim, coords = row.transform.dim, grid.own_coords
    held = block[cut(dim, 0, row.held.core_box(row.taken, coords).shape[dim])]
    moved = _moved(held, row.held, row.aligned, row.taken, grid)
    rows, length = row.by_rows.core_box(row.matrix, coords), row.factors[1]
    shape = (*moved.shape[:dim], rows.shape[dim] * length, *moved.shape[dim + 1 :])
    cells = grid.allocate(shape, dtype)
    cells[cut(dim, 0, moved.shape[dim])] = moved
    cells[cut(dim, moved.shape[dim], shape[dim])] = 0
    return rows.starts[dim] * length, cells


def _moved(block: np.ndarray, source: Sharding, target: Sharding, shape: Shape, grid: ProcessGrid) -> np.ndarray:
    if source == target:
        return block
    found = reshard_local(np.ascontiguousarray(block), source, target, grid, shape)
    assert isinstance(found, np.ndarray)  # this process is on the grid
    return found


def _in_four_steps(row: CutTransform, cells: np.ndarray, grid: ProcessGrid) -> np.ndarray:
    matrix = _matrix_of(row, grid)
    spectrum = matrix.forward(matrix.split(cells), _sign(row.transform))
    in_order = matrix.transposed(spectrum, to_columns=True).swapaxes(matrix.dim, matrix.dim + 1)
    return matrix.joined(np.ascontiguousarray(in_order))


def _convolved(row: CutTransform, cells: np.ndarray, first: int, grid: ProcessGrid) -> np.ndarray:
    """The sum over j of x[j] w^(j k) is c[k] times that of x[j] c[j] / c[k - j], where c[k] = w^(k^2 / 2)."""
    matrix, dim, n = _matrix_of(row, grid), row.transform.dim, row.transform.n
    ndim, dtype = cells.ndim, cells.dtype
    numbers = np.arange(first, first + cells.shape[dim])
    chirp = laid_along(_chirp(np.minimum(numbers, n - 1), n, _sign(row.transform), dtype), dim, ndim)
    cells *= chirp
    spectrum = matrix.forward(matrix.split(cells), -1)
    spectrum *= _kernel(row, dtype, grid)
    found = matrix.joined(matrix.backward(spectrum))
    found *= chirp
    return found


def _kernel(row: CutTransform, dtype: np.dtype, grid: ProcessGrid) -> np.ndarray:
    """The spectrum of 1 / c around 0, divided by the length of the convolution; of extent 1 along other dimensions."""
    (n1, n2), n, dim = row.factors, row.transform.n, row.transform.dim
    alone = _matrix_of(row, grid, is_alone=True)
    own = row.by_columns.core_box(row.matrix, grid.own_coords)
    columns = np.arange(own.starts[dim + 1], own.stops[dim + 1])
    numbers = np.arange(n1)[:, None] * n2 + columns
    distance = np.minimum(numbers, n1 * n2 - numbers)
    kernel = np.where(distance < n, _chirp(np.minimum(distance, n - 1), n, -_sign(row.transform), dtype), dtype.type(0))
    kernel *= dtype.type(1 / (n1 * n2))
    ones = (1,) * (len(row.matrix) - dim - 2)
    return alone.forward(np.ascontiguousarray(kernel).reshape((1,) * dim + kernel.shape + ones), -1)


def _chirp(numbers: np.ndarray, n: int, sign: int, dtype: np.dtype) -> np.ndarray:
    """exp(sign pi i k^2 / n) for every number k."""
    squares = numbers**2 % (2 * n) if n < 1 << 31 else (numbers.astype(object) ** 2 % (2 * n)).astype(np.int64)
    return _unit(squares, 2 * n, sign, dtype)


def _unit(numerators: np.ndarray, denominator: int, sign: int, dtype: np.dtype) -> np.ndarray:
    """exp(sign 2 pi i numerator / denominator), in the precision of ``dtype``, at least in doubles on the way."""
    real = np.result_type(np.empty(0, dtype).real.dtype, np.float64)
    angles = numerators.astype(real) * (8 * np.arctan(real.type(1)) / denominator)
    found = np.empty(angles.shape, dtype)
    found.real, found.imag = np.cos(angles), sign * np.sin(angles)
    return found


def _matrix_of(row: CutTransform, grid: ProcessGrid, is_alone: bool = False) -> _Matrix:
    """The matrix of a row; ``is_alone``: of one row only, which all devices along other dimensions have."""
    dim = row.transform.dim
    if not is_alone:
        return _Matrix(dim, row.by_rows, row.by_columns, row.matrix, grid)
    shape = tuple([n if d in (dim, dim + 1) else 1 for d, n in enumerate(row.matrix)])
    by_rows, by_columns = (
        Sharding(
            each.grid,
            [each.axes_of(d) if d in (dim, dim + 1) else () for d in range(len(shape))],
            sharded_dims_offsets=[block_starts(each, at, row.matrix[at])],
        )
        for each, at in ((row.by_rows, dim), (row.by_columns, dim + 1))
    )
    return _Matrix(dim, by_rows, by_columns, shape, grid)


class _Matrix(NamedTuple):
    """Rows as matrices of dimensions ``dim`` and ``dim + 1``, of which either is cut."""

    dim: int
    by_rows: Sharding
    by_columns: Sharding
    shape: Shape
    grid: ProcessGrid

    def split(self, cells: np.ndarray) -> np.ndarray:
        """Whole rows of the matrix from cells in their order, moved to whole columns.  Collective."""
        dim, length = self.dim, self.shape[self.dim + 1]
        rows = cells.reshape((*cells.shape[:dim], cells.shape[dim] // length, length, *cells.shape[dim + 1 :]))
        return self.transposed(rows, to_columns=True)

    def joined(self, rows: np.ndarray) -> np.ndarray:
        """The cells in their order from whole rows.  Local."""
        dim, shape = self.dim, rows.shape
        return rows.reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))

    def transposed(self, block: np.ndarray, to_columns: bool) -> np.ndarray:
        """Whole rows moved to whole columns, or back.  Collective."""
        ends = (self.by_rows, self.by_columns) if to_columns else (self.by_columns, self.by_rows)
        return _moved(block, *ends, self.shape, self.grid)

    def forward(self, columns: np.ndarray, sign: int) -> np.ndarray:
        """The spectrum as whole rows, cell (k1, k2) being that of k1 + n1 k2.  Collective; writes over ``columns``."""
        columns = _along(columns, self.dim, sign)
        self._twist(columns, sign)
        return _along(self.transposed(columns, to_columns=False), self.dim + 1, sign)

    def backward(self, rows: np.ndarray) -> np.ndarray:
        """The opposite of ``forward(..., -1)``, not scaled, as whole rows of cells in their order.  Collective."""
        columns = self.transposed(_along(rows, self.dim + 1, 1), to_columns=True)
        self._twist(columns, 1)
        return self.transposed(_along(columns, self.dim, 1), to_columns=False)

    def _twist(self, columns: np.ndarray, sign: int) -> None:
        """Multiply cell (k1, j2) by exp(sign 2 pi i k1 j2 / n), in place."""
        dim = self.dim
        n1, n2 = self.shape[dim : dim + 2]
        own = self.by_columns.core_box(self.shape, self.grid.own_coords)
        numbers = np.arange(own.starts[dim + 1], own.stops[dim + 1])
        step = max(1, _CELLS_AT_ONCE // max(1, len(numbers)))
        trailing = (1,) * (columns.ndim - dim - 2)
        for low in range(0, n1, step):
            rows = np.arange(low, min(low + step, n1))
            factors = _unit(rows[:, None] * numbers, n1 * n2, sign, columns.dtype)
            columns[cut(dim, low, low + step)] *= factors.reshape(factors.shape + trailing)


def _along(block: np.ndarray, dim: int, sign: int) -> np.ndarray:
    """The transform along a whole dimension, not scaled, in place."""
    if sign < 0:
        return np.fft.fft(block, axis=dim, out=block)
    return np.fft.ifft(block, axis=dim, norm="forward", out=block)
