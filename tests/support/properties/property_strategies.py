"""Strategies of hypothesis: grids, shapes, dtypes, memory layouts, paths, shardings; and arrays made of them."""

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import spmd_grid as sg
from support.properties.draws import HypothesisDraw, draw_axes, draw_grid_shape, draw_shape, draw_sharding

# Fixtures live as long as the test here, not as long as an example: `spmd` keeps nothing between calls.
with_fixtures = settings(suppress_health_check=list(HealthCheck))

PATHS = ["auto", "auto", "direct", "inline", "message"]
NUMERIC = ["?", "i1", "u1", "i2", "i4", "u8", "i8", "f2", "f4", "f8", ">f8", ">i4", "c8", "c16", "g"]
MOVED = [
    *NUMERIC,
    "S5",
    "U3",
    "M8[s]",
    "V7",
    [("a", "i2"), ("b", ">f8", (2,))],
    [("a_rather_long_field_name", "f4"), ("b", "?")],
]
MEMORY = ["C", "C", "F", "steps", "backwards", "swapped", "inside", "one_cell"]


@dataclass
class Case:
    """A call to make: on which grid, over which axes, with which arrays."""

    grid_shape: tuple
    axes: list
    shapes: list  # by rank
    dtype: object
    memory: str
    path: str
    seed: int
    args: dict = field(default_factory=dict)

    @property
    def n_ranks(self) -> int:
        return math.prod(self.grid_shape)

    def arrays(self) -> list:
        """Every rank's array; every process can make them all."""
        return [make_array(shape, self.dtype, self.memory, (self.seed, i)) for i, shape in enumerate(self.shapes)]


def make_array(shape, dtype, memory, seed) -> np.ndarray:
    """Values of a seeded generator in the memory layout asked for: small whole numbers, so that sums are exact."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    n = math.prod(shape)
    if dtype.kind in "iufcb":
        values = rng.integers(0 if dtype.kind in "ub" else -3, 2 if dtype.kind == "b" else 4, n).astype(dtype)
        if dtype.kind == "c":
            values.imag = rng.integers(-3, 4, n)
        if dtype.kind in "fc" and n and rng.random() < 0.2:
            values[rng.integers(0, n)] = rng.choice([np.nan, np.inf, -np.inf])
    elif dtype.kind == "U":
        values = rng.integers(0, 999, n).astype(dtype)
    else:
        values = np.frombuffer(rng.integers(1, 127, n * dtype.itemsize, np.uint8).tobytes(), dtype, n)
    return in_memory(values.reshape(shape), memory)


def in_memory(values: np.ndarray, memory: str) -> np.ndarray:
    """An array of these values, lying in memory as ``memory`` says."""
    shape = values.shape
    if memory == "one_cell":  # strides 0, read-only
        return np.broadcast_to(values[(..., *[slice(0, 1)] * values.ndim)], shape) if values.size else values
    if memory == "C":
        return values.copy()
    if memory == "F":
        return values.copy(order="F")
    if memory == "steps":
        x = np.zeros([2 * n + 3 for n in shape], values.dtype)[(..., *(slice(1, 2 * n + 1, 2) for n in shape))]
    elif memory == "backwards":
        x = np.zeros(shape, values.dtype)[(..., *[slice(None, None, -1)] * values.ndim)]
    elif memory == "swapped":
        axes = (*range(1, values.ndim), 0)[: values.ndim]
        x = np.zeros([shape[d] for d in axes], values.dtype).transpose(np.argsort(axes))
    elif memory == "inside":
        x = np.zeros([n + 2 for n in shape], values.dtype)[(..., *(slice(1, n + 1) for n in shape))]
    x[...] = values
    return x


@st.composite
def grid_shapes(draw, most_ranks):
    return draw_grid_shape(HypothesisDraw(draw), most_ranks)


@st.composite
def tensor_shapes(draw, least_ndim=1):
    return draw_shape(HypothesisDraw(draw), least_ndim, most_ndim=4)


@st.composite
def cases(draw, most_ranks, dtypes=MOVED, least_axes=0, least_ndim=1, shape=None):
    """Arrays of one shape; tests change what may differ."""
    grid_shape = draw(grid_shapes(most_ranks))
    shape = draw(tensor_shapes(least_ndim)) if shape is None else shape
    return Case(
        grid_shape=grid_shape,
        axes=draw_axes(HypothesisDraw(draw), grid_shape, least_axes),
        shapes=[shape] * math.prod(grid_shape),
        dtype=draw(st.sampled_from(dtypes)),
        memory=draw(st.sampled_from(MEMORY)),
        path=draw(st.sampled_from(PATHS)),
        seed=draw(st.integers(0, 99)),
    )


def vary_extents(draw, case: Case, axis: int) -> None:
    """Gives every rank an extent of its own along ``axis``."""
    extents = draw(st.lists(st.integers(0, 5), min_size=case.n_ranks, max_size=case.n_ranks))
    case.shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for shape, n in zip(case.shapes, extents, strict=True)]


@st.composite
def shardings(draw, grid_shape, global_shape, partial_kinds=()):
    return draw_sharding(HypothesisDraw(draw), sg.Grid(grid_shape), global_shape, partial_kinds)
