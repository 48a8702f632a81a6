"""The source of every halo cell, against brute force over cells and against numpy.pad."""

import doctest
import math
import random
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.halo.halo_oracle import local_cells
from support.layout_parts import layout_parts

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.geometry import line as line_module
from spmd_grid.halo.geometry import pattern as pattern_module
from spmd_grid.halo.geometry.line import Line, halo_pieces, in_domain
from spmd_grid.halo.geometry.pattern import HaloPattern

# -- along one line --------------------------------------------------------------------------------------------

STARTS = [
    [0, 5],
    [0, 0],
    [0, 3, 5],
    [0, 0, 4],
    [0, 4, 4],
    [0, 1, 2, 3],
    [0, 2, 2, 2, 7],
    [0, 3, 4, 6],
    [0, 0, 0, 0],
    [0, 1, 1, 5, 6, 6, 8],
]
LINE_RULES = [("wrap", "wrap"), *product(["leave", "edge", "reflect", "symmetric", 0.5], repeat=2)]


@pytest.mark.parametrize("module", [line_module, pattern_module])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_imports_neither_numba_nor_mpi():
    program = "import sys, spmd_grid.halo.geometry.pattern; assert not {'numba', 'mpi4py'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("starts", STARTS, ids=str)
def test_pieces_are_the_halo_cells_of_the_domain(starts):
    owners = [device for device in range(len(starts) - 1) for _ in range(starts[device], starts[device + 1])]
    for device, low, high, periodic in product(range(len(starts) - 1), range(8), range(8), [False, True]):
        cells, known = local_cells(starts, device, low, high, periodic)
        core = range(low, low + starts[device + 1] - starts[device])
        wanted = {at: cells[at] for at in range(len(cells)) if known[at] and at not in core}
        found = {}
        for piece in halo_pieces(starts, device, low, high, periodic):
            assert piece.start < piece.stop
            for i, cell in enumerate(range(piece.start, piece.stop)):
                assert piece.at + i not in found
                assert owners[cell] == piece.owner
                found[piece.at + i] = cell
        assert found == wanted
        assert list(found) == sorted(found)
        start, stop = in_domain(starts, device, low, high, periodic)
        assert [start <= at < stop for at in range(len(cells))] == known.tolist()


@pytest.mark.parametrize("starts", STARTS, ids=str)
def test_takers_are_all_whose_runs_a_device_owns(starts):
    places = range(len(starts) - 1)
    for low, high, rules in product([0, 1, 2, 9], [0, 1, 3, 9], LINE_RULES):
        line = Line(starts, low, high, rules)
        for place in places:
            runs = {taker: [run for run in line.runs(taker) if run.owner == place] for taker in places}
            assert list(line.takers(place)) == [(taker, runs[taker]) for taker in places if runs[taker]]


# -- in any number of dimensions: the oracle -------------------------------------------------------------------

COPIED, FILLED, LEFT = range(3)
# One constant and one function for each side of each dimension, so that they cannot be mistaken for each other.
CONSTANTS = [(-11, -12), (-21, -22), (-31, -32)]
FUNCTIONS = [tuple((lambda x, name=(dim, side): name) for side in range(2)) for dim in range(3)]
RULES = ["leave", "edge", "reflect", "symmetric", "constant", "function"]


def rule_of(name, dim, side):
    return {"constant": CONSTANTS, "function": FUNCTIONS}[name][dim][side] if name in RULES[4:] else name


class Dimension:
    """One dimension of one device's local array, cell by cell: what each gets, and from where."""

    def __init__(self, pattern, coords, dim):
        extent, (low, high) = pattern.layout.global_shape[dim], pattern.layout.sharding.halo_of(dim)
        first, last = pattern.layout.core_box(coords).starts[dim], pattern.layout.core_box(coords).stops[dim]
        self.cells = cells = np.arange(first - low, last + high)
        self.core = (cells >= first) & (cells < last)
        self.beyond = cells < 0, cells >= extent
        self.kinds, self.sources = np.full(len(cells), COPIED), cells.copy()
        self.values = np.zeros(len(cells), int)
        for side, beyond in enumerate(self.beyond):
            rule = "wrap" if pattern.periodic[dim] else pattern.boundary[dim][side]
            if isinstance(rule, str) and rule != "leave" and extent:
                width = max(low, high)
                self.sources[beyond] = np.pad(np.arange(extent), width, mode=rule)[width + cells[beyond]]
            elif isinstance(rule, int):
                self.kinds[beyond], self.values[beyond] = FILLED, rule
            else:
                self.kinds[beyond] = LEFT


def outer(ufunc, rows):
    """An array with one dimension per row, of whose entries ``ufunc`` makes its own."""
    result = ufunc.identity
    for row in rows:
        result = ufunc.outer(result, row)
    return np.asarray(result)


class Oracle:
    """The arrays that all devices must end up with, where no two cells of any two devices are alike before."""

    def __init__(self, pattern):
        self.pattern, layout = pattern, pattern.layout
        self.devices = [layout.grid.multi_index(linear) for linear in range(layout.grid.size)]
        self.array = np.arange(math.prod(layout.global_shape)).reshape(layout.global_shape)
        self.before = []
        for coords in self.devices:
            local = -10_000 * (layout.grid.linear_index(coords) + 1) - np.arange(math.prod(layout.local_shape(coords)))
            local = local.reshape(layout.local_shape(coords))
            local[layout.core_in_local(coords).slices()] = self._mine(coords)[layout.core_box(coords).slices()]
            self.before.append(local)

    def _mine(self, coords):
        """The global array that devices with these coordinates on axes that do not split have among them."""
        split = {axis for axes in self.pattern.layout.sharding.split_axes for axis in axes}
        copy = self.pattern.layout.grid.linear_index([0 if a in split else c for a, c in enumerate(coords)])
        return self.array + copy * self.array.size

    def after(self, coords):
        """``(local array, which of its cells are written, by side those for functions)``, functions not yet called."""
        dims = [Dimension(self.pattern, coords, dim) for dim in range(self.pattern.layout.ndim)]
        local = self.before[self.pattern.layout.grid.linear_index(coords)].copy()
        out_of_core = outer(np.add, [~dim.core * 1 for dim in dims])
        wanted = out_of_core > 0 if self.pattern.corners else out_of_core == 1
        wanted &= outer(np.logical_and, [dim.kinds != LEFT for dim in dims])
        if self.array.size:
            local[wanted] = self._mine(coords)[np.ix_(*(dim.sources * (dim.kinds == COPIED) for dim in dims))][wanted]
        for d, dim in enumerate(dims):
            along_d = [-1 if other == d else 1 for other in range(len(dims))]
            filled = wanted & (dim.kinds == FILLED).reshape(along_d)
            local[filled] = np.broadcast_to(dim.values.reshape(along_d), local.shape)[filled]
        sides = {}
        for d, side in product(range(len(dims)), range(2)):
            rows = [np.ones(len(dim.cells), bool) if self.pattern.corners else dim.core for dim in dims]
            rows[d] = dims[d].beyond[side]
            sides[d, side] = outer(np.logical_and, rows)
        return local, wanted, sides


def indices(cells):
    return np.ix_(*(start + step * np.arange(n) for start, step, n in zip(*cells, strict=True)))


def refreshed(pattern, coords, before):
    """A device's local array when all takes and fills are done, and how often each of its cells was written."""
    layout = pattern.layout
    local = before[layout.grid.linear_index(coords)].copy()
    written = np.zeros(local.shape, int)
    for take in pattern.takes(coords):
        assert take.box.shape == take.source.shape and not take.box.is_empty
        assert set(take.source.steps) <= {-1, 0, 1}
        assert all(step == 1 for step, n in zip(take.source.steps, take.source.shape, strict=True) if n == 1)
        core = layout.core_in_local(layout.grid.multi_index(take.owner))
        for index, start, stop in zip(indices(take.source), core.starts, core.stops, strict=True):
            assert start <= index.min() and index.max() < stop, "a source that its owner does not own"
        local[take.box.slices()] = before[take.owner][indices(take.source)]
        written[take.box.slices()] += 1
    for fill in pattern.fills(coords):
        assert not fill.box.is_empty
        local[fill.box.slices()] = fill.value
        written[fill.box.slices()] += 1
    return local, written


def check(pattern):
    """Check every promise of a pattern, on all devices."""
    oracle = Oracle(pattern)
    taken, given_away = {}, {}
    for linear, coords in enumerate(oracle.devices):
        wanted, once, sides = oracle.after(coords)
        local, written = refreshed(pattern, coords, oracle.before)
        assert (written == once).all(), (pattern, coords, written)
        assert (local == wanted).all(), (pattern, coords, local, wanted)
        for take in pattern.takes(coords):
            taken.setdefault((take.owner, linear), []).append(take.source)
        gives = pattern.gives(coords)
        assert [give.taker for give in gives] == sorted(give.taker for give in gives)
        for give in gives:
            given_away.setdefault((linear, give.taker), []).append(give.cells)
        found = {(edge.dim, edge.side): edge for edge in pattern.edges(coords)}
        assert list(found) == sorted(found) and len(found) == len(pattern.edges(coords))
        for (dim, side), mask in sides.items():
            function = pattern.boundary[dim][side]
            if callable(function) and not pattern.periodic[dim] and mask.any():
                edge = found.pop((dim, side))
                assert edge.function is function
                assert mask[edge.box.slices()].all() and edge.box.size == mask.sum()
        assert not found
    assert given_away == taken


# -- sweeps: a sample by default, all of it with --full --------------------------------------------------------

WIDTHS = list(product(range(4), repeat=2))
ENDS = ["periodic", *product(RULES, repeat=2)]
GRIDS = [
    # grid shape, split_axes
    *[((n,), split) for n in range(1, 7) for split in ([[0]], [[], [0]])],
    *[(shape, [[0], [1]]) for shape in [(1, 1), (1, 2), (2, 2), (3, 1), (2, 3), (3, 2), (1, 6)]],
    *[((2, 3), split) for split in ([[1], [0]], [[0, 1]], [[1, 0], []], [[0]], [[], [1]], [[]])],
    *[(shape, [[0], [1], [2]]) for shape in [(1, 1, 1), (2, 1, 2), (1, 2, 3)]],
    *[((3, 2, 1), split) for split in ([[2], [0], [1]], [[1, 0], [2]], [[], [0], []], [[2, 1], [], [0]])],
]


def cuts(sizes, extent):
    """Some ways to cut an extent: the block rules, and offsets of which some are equal."""
    n = math.prod(sizes)
    return ["ceil", "balanced", (0, *sorted((7 * i + 1) % (extent + 1) for i in range(n - 1)), extent)]


def make(grid_shape, split_axes, extents, cut, widths, ends, corners):
    """A pattern from a choice of each per tensor dimension, except for ``cut``, 0 to 2, and ``corners``."""
    grid, sharded = Grid(grid_shape), [dim for dim, axes in enumerate(split_axes) if axes]
    options = {"halo_sizes": [widths[dim] for dim in sharded]}
    ways = [cuts([grid_shape[axis] for axis in split_axes[dim]], extents[dim])[cut] for dim in sharded]
    options.update({"sharded_dims_offsets": ways} if cut == 2 else {"blocks": ("ceil", "balanced")[cut]})
    boundary = [
        [rule_of(name, dim, side) for side, name in enumerate(("edge", "constant") if end == "periodic" else end)]
        for dim, end in enumerate(ends)
    ]
    layout = Layout(Sharding(grid, split_axes, **options), extents)
    return HaloPattern(layout, tuple(end == "periodic" for end in ends), corners, boundary)


def sample(grid_shape, split_axes, n):
    rng = random.Random(7)
    for _ in range(n):
        # Half of the cases are periodic about as often as not.
        ends = ENDS + ["periodic"] * rng.choice([0, 30])
        extents, widths, chosen = zip(
            *((rng.randrange(9), rng.choice(WIDTHS), rng.choice(ends)) for _ in split_axes), strict=True
        )
        yield make(grid_shape, split_axes, extents, rng.randrange(3), widths, chosen, rng.random() < 0.7)


@pytest.mark.parametrize(["grid_shape", "split_axes"], GRIDS, ids=str)
def test_grids(grid_shape, split_axes):
    for pattern in sample(grid_shape, split_axes, settings().max_examples * 2 // 3):
        check(pattern)


@pytest.mark.full
@pytest.mark.parametrize("n", range(1, 7))
def test_all_lines(n):
    for extent, cut, width, ends in product(range(9), range(3), WIDTHS, ENDS):
        check(make((n,), [[0]], [extent], cut, [width], [ends], True))


@pytest.mark.full
@pytest.mark.parametrize(["grid_shape", "split_axes"], GRIDS, ids=str)
def test_many_grids(grid_shape, split_axes):
    """A large sample: all there are would be millions for each grid."""
    for pattern in sample(grid_shape, split_axes, settings().max_examples * 2):
        check(pattern)


@st.composite
def patterns(draw):
    """Any axes on any dimensions, any block rule, any halos and boundaries; some axes replicate or are partial."""
    shapes = [(1,), (2,), (3,), (6,), (2, 2), (3, 2), (1, 4), (2, 1, 3), (2, 2, 2)]
    grid = Grid(draw(st.sampled_from(shapes)))
    split_axes, options, extents = draw(layout_parts(grid, st.sampled_from(WIDTHS), always_halos=True))
    ndim = len(extents)
    names = st.sampled_from(RULES)
    boundary = [[rule_of(draw(names), dim, side) for side in range(2)] for dim in range(ndim)]
    periodic = [draw(st.booleans()) for _ in range(ndim)]
    return HaloPattern(Layout(Sharding(grid, split_axes, **options), extents), periodic, draw(st.booleans()), boundary)


@given(patterns())
def test_any_pattern(pattern):
    check(pattern)


# -- against numpy.pad of the whole array ----------------------------------------------------------------------


@pytest.mark.parametrize("grid_shape", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("rules", [*product(["edge", "reflect", "symmetric", "constant", "wrap"], repeat=2)], ids=str)
def test_whole_local_arrays_are_those_of_numpy_pad(rules, grid_shape):
    """Devices at the border hold the array as numpy.pad makes it, corners too; the others pieces of it."""
    for shape, halos in product([(4, 5), (1, 3), (2, 7)], [((1, 1), (1, 1)), ((3, 2), (0, 3)), ((5, 6), (7, 0))]):
        layout = Layout(Sharding(Grid(grid_shape), [[0], [1]], halo_sizes=halos, blocks="balanced"), shape)
        boundary = ["edge" if name == "wrap" else [rule_of(name, d, s) for s in (0, 1)] for d, name in enumerate(rules)]
        pattern = HaloPattern(layout, [name == "wrap" for name in rules], boundary=boundary)
        oracle = Oracle(pattern)
        whole = oracle.array
        for dim, name in enumerate(rules):
            widths = [halos[d] if d == dim else (0, 0) for d in range(2)]
            options = {"constant_values": CONSTANTS[dim]} if name == "constant" else {}
            whole = np.pad(whole, widths, mode=name, **options)
        for coords in oracle.devices:
            where = layout.local_box(coords).shift([low for low, _ in halos])
            assert np.array_equal(refreshed(pattern, coords, oracle.before)[0], whole[where.slices()])
