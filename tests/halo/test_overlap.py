"""map_overlap: what it computes is what numpy computes on the whole array, each cell once; and the pieces."""

import gc
import weakref
from itertools import product

import numba
import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo import overlap
from spmd_grid.halo.overlap import overlap_boxes, tiles

PATHS = ["direct", "message"]


class Case:
    """An array, how it is cut, and the stencil; ``reach``: (low, high) per tensor dimension."""

    def __init__(self, grid, split, shape, halos, radius, region=None, periodic=False, boundary="leave", **sharding):
        self.grid, self.shape, self.radius, self.region = grid, shape, radius, region
        self.periodic, self.boundary = periodic, boundary
        self.sharding = Sharding(Grid(grid), split, halo_sizes=halos, **sharding)
        self.layout = Layout(self.sharding, shape)
        row = radius if isinstance(radius, list) else [radius] * len(shape)
        self.reach = [(each, each) if isinstance(each, int) else each for each in row]
        self.ranks = int(np.prod(grid))

    def computed(self):
        """Which cells of the global array are computed."""
        mask = np.zeros(self.shape, bool)
        mask[self.region if self.region is not None else ...] = True
        for dim, (low, high) in enumerate(self.reach):
            if dim not in self.sharding.sharded_dims:
                cells = np.arange(self.shape[dim])
                inside = (cells >= low) & (cells < self.shape[dim] - high)
                mask &= inside.reshape([-1 if d == dim else 1 for d in range(len(self.shape))])
        return mask

    def offsets(self):
        return list(product(*[range(-low, high + 1) for low, high in self.reach]))

    def expected(self, arrays, before):
        """What numpy computes on whole arrays; ``before`` where nothing is computed."""
        mode = "wrap" if self.periodic else "constant"
        padded = []
        for array in arrays:
            for dim, sides in enumerate(self.reach):
                if not array.shape[dim]:
                    return before.copy()
                array = np.pad(array, [sides if d == dim else (0, 0) for d in range(array.ndim)], mode=mode)
            padded.append(array)
        lows = [low for low, _ in self.reach]
        result = combined(
            padded, np.zeros(self.shape, before.dtype), lows, self.shape, self.offsets(), (0,) * len(lows)
        )
        return np.where(self.computed(), result, before)


def combined(arrays, out, starts, extents, offsets, at):
    """Sums of weighted neighbours, in an order that decides the bits; ``out`` from ``at`` on is set and returned."""
    total = 0
    for number, offset in enumerate(offsets):
        shifted = tuple(slice(s + o, s + o + n) for s, o, n in zip(starts, offset, extents))
        for k, u in enumerate(arrays):
            total = total + (1 / (3 + number + 7 * k)) * u[shifted]
    out[tuple(slice(a, a + n) for a, n in zip(at, extents))] = total
    return out


def stencil(*arguments):
    """A kernel of plain Python, for any number of arrays."""
    *arrays, out, starts, stops, offsets = arguments
    assert all(type(n) is int for n in (*starts, *stops))
    extents = [b - a for a, b in zip(starts, stops)]
    assert all(n > 0 for n in extents)
    combined(arrays, out, starts, extents, offsets, starts)


@numba.njit(nogil=True)
def compiled_stencil(u, v, out, starts, stops, weight):
    for i in range(starts[0], stops[0]):
        for j in range(starts[1], stops[1]):
            total = weight * u[i - 1, j]
            total = total + weight * u[i, j - 1]
            out[i, j] = total + v[i, j + 1]


def values(shape, seed):
    """The same numbers on every rank."""
    return np.random.default_rng(seed).standard_normal(shape)


UNEVEN = {"sharded_dims_offsets": [[0, 3, 3, 10]]}
CASES = {
    "1-d": Case((3,), [[0]], (11,), [1, 1], 1),
    "1-d, periodic": Case((3,), [[0]], (11,), [1, 1], 1, periodic=True),
    "1-d, radius 2": Case((3,), [[0]], (17,), [2, 2], 2),
    "1-d, radius below halo": Case((3,), [[0]], (17,), [3, 2], 1, periodic=True),
    "1-d, radius 0": Case((2,), [[0]], (5,), [1, 1], 0),
    "1-d, no halo at all": Case((2,), [[0]], (5,), None, 0),
    "1-d, one sided": Case((3,), [[0]], (9,), [2, 0], [(2, 0)]),
    "1-d, asymmetric": Case((3,), [[0]], (13,), [1, 3], [(1, 2)], periodic=True),
    "1-d, thin": Case((4,), [[0]], (6,), [2, 2], 2, blocks="balanced"),
    "1-d, empty blocks": Case((4,), [[0]], (5,), [1, 1], 1, periodic=True),
    "1-d, uneven": Case((3,), [[0]], (10,), [2, 1], 1, **UNEVEN),
    "1-d, region": Case((3,), [[0]], (11,), [1, 1], 1, region=np.s_[1:-1]),
    "1-d, region of few": Case((3,), [[0]], (11,), [1, 1], 1, region=np.s_[4:6]),
    "1-d, empty region": Case((2,), [[0]], (11,), [1, 1], 1, region=np.s_[6:4]),
    "1-d, nothing": Case((2,), [[0]], (0,), [1, 1], 1),
    "1-d, not sharded": Case((2,), [], (7,), None, 2),
    "2-d": Case((2, 2), [[0], [1]], (9, 10), [1, 1, 1, 1], 1),
    "2-d, periodic, radius 2": Case((2, 2), [[0], [1]], (9, 10), [2, 2, 3, 2], 2, periodic=True),
    "2-d, radius per dimension": Case((2, 2), [[0], [1]], (9, 10), [1, 1, 2, 2], [0, 2]),
    "2-d, border left": Case((2, 2), [[0], [1]], (9, 10), [1, 1, 1, 1], 1, region=np.s_[1:-1, 1:-1]),
    "2-d, slab": Case((3,), [[], [0]], (6, 11), [1, 1], 1),
    "2-d, slab of rows": Case((3,), [[0]], (11, 6), [2, 2], 2, region=(slice(2, -2),)),
    "2-d, replicated": Case((2, 2), [[1]], (9, 4), [1, 1], 1),
    "2-d, uneven": Case((1, 3), [[0], [1]], (5, 10), [1, 1, 1, 1], 1, sharded_dims_offsets=[[0, 5], [0, 1, 1, 10]]),
    "2-d, both axes on one": Case((2, 2), [[1, 0]], (13, 5), [1, 1], 1, periodic=True),
    "3-d": Case((2, 1, 2), [[0], [1], [2]], (6, 5, 7), [1, 1] * 3, 1),
    "3-d, thin": Case((4,), [[], [0]], (5, 6, 5), [2, 2], [1, 2, 2], blocks="balanced"),
}


@pytest.mark.parametrize("name", CASES)
def test_boxes_are_those_found_cell_by_cell(name):
    case = CASES[name]
    sharded, computed = case.sharding.sharded_dims, case.computed()
    for device in range(case.ranks):
        coords = case.layout.grid.multi_index(device)
        core, origin = case.layout.core_in_local(coords), case.layout.local_box(coords).starts
        interior, boundary = overlap_boxes(case.layout, coords, case.radius, case.region)
        seen = np.zeros(case.layout.local_shape(coords), "u1")
        for number, box in enumerate((interior, *boundary)):
            assert number == 0 or not box.is_empty
            seen[box.slices()] += 1 if number else 10
        for cell in np.ndindex(seen.shape):
            wanted = 0
            if core.contains(Box(cell, tuple(i + 1 for i in cell))):
                near = any(
                    d in sharded and not core.starts[d] <= cell[d] + o < core.stops[d]
                    for d, (low, high) in enumerate(case.reach)
                    for o in (-low, high)
                )
                wanted = computed[tuple(i + o for i, o in zip(cell, origin))] * (1 if near else 10)
            assert seen[cell] == wanted, (coords, cell, seen, wanted)


@pytest.mark.parametrize("cells", [1, 2, 5, 7, 24, 60, 61, 10**9])
@pytest.mark.parametrize("box", [Box((), ()), Box((2,), (9,)), Box((1, 2, 3), (4, 6, 8)), Box((0, 3), (4, 3))], ids=str)
def test_tiles_are_runs_in_order(box, cells):
    found = tiles(box, cells)
    numbers = np.arange(np.prod(box.stops, dtype=int)).reshape(box.stops)
    inside = numbers[box.slices()]
    every = [numbers[tile.slices()].ravel() for tile in found]
    assert np.array_equal(np.concatenate([[], *every]), inside.ravel())
    assert all(0 < tile.size <= cells for tile in found)
    assert len(found) <= 2 * max(1, -(-box.size // cells)) + sum(box.shape)


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (2, "beyond"),
        ([1, 2], "dimension 1"),
        ([(1, 1), (0, 2)], "dimension 1"),
        (-1, "whole number"),
        (1.0, "whole number"),
        (True, "whole number"),
        ("1", "whole number"),
        (None, "whole number"),
        ([1], "list of 2"),
        ([1, (1, 1, 1)], "pair"),
    ],
)
def test_radius_is_refused(radius, words):
    layout = Layout(Sharding(Grid((2, 2)), [[0], [1]], halo_sizes=[2, 1, 1, 1]), (8, 8))
    with pytest.raises(sg.ShapeError, match=words):
        overlap_boxes(layout, (0, 0), radius)


@pytest.mark.parametrize("region", [3, (1, 2), [slice(None, None, 2)], (slice(1), slice(1), slice(1)), np.s_[..., 1:2]])
def test_region_is_refused(region):
    layout = Layout(Sharding(Grid((2, 2)), [[0], [1]], halo_sizes=[1, 1, 1, 1]), (8, 8))
    with pytest.raises(sg.ShapeError, match="slices"):
        overlap_boxes(layout, (0, 0), 1, region)


def test_coords_are_checked():
    with pytest.raises(sg.DeviceError):
        overlap_boxes(CASES["2-d"].layout, (0, 2), 1)


@pytest.fixture(params=[1 << 20, 100], ids=["one tile", "many tiles"])
def tile_bytes(request, monkeypatch):
    monkeypatch.setattr(overlap, "_TILE_BYTES", request.param)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(spmd, name, path, tile_bytes):
    case = CASES[name]

    def body():
        grid = sg.init_grid(case.grid)
        u = sg.from_function(lambda *i: values(case.shape, 1)[i], case.shape, case.sharding, grid)
        out = sg.full(case.shape, case.sharding, grid, fill_value=9.0)
        before, version = out.local.copy(), out._version
        for turn in range(3):
            u.core[...] = values(case.shape, turn)[u.global_slices]
            result = sg.map_overlap(
                stencil, u, case.radius, case.offsets(), out=out, region=case.region, periodic=case.periodic
            )
            assert result is out and out._version == version + turn + 1
            expected = case.expected([values(case.shape, turn)], np.full(case.shape, 9.0))
            assert np.array_equal(out.core, expected[u.global_slices]), (grid.coords, turn)
            kept = np.ones(before.shape, bool)
            kept[case.layout.core_in_local(grid.coords).slices()] = False
            assert np.array_equal(out.local[kept], before[kept])

    with sg.forced_path(path):
        spmd(case.ranks, body)


@pytest.mark.parametrize("name", CASES)
def test_every_cell_is_computed_once(spmd, name, tile_bytes):
    """The kernel counts; numbers of cells and of visits must agree, hence no cell is visited twice."""
    case = CASES[name]

    def count(u, out, starts, stops):
        out[tuple(map(slice, starts, stops))] += 1

    def body():
        grid = sg.init_grid(case.grid)
        u = sg.zeros(case.shape, case.sharding, grid, "f4")
        out = sg.zeros(case.shape, case.sharding, grid, "i8")
        sg.map_overlap(count, u, case.radius, out=out, region=case.region)
        assert np.array_equal(out.core, case.computed()[u.global_slices].astype("i8"))
        assert out.local.sum() == out.core.sum()

    spmd(case.ranks, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("own_plan", [False, True])
def test_several_fields_and_a_compiled_kernel(spmd, path, own_plan, tile_bytes):
    case = Case((1, 3), [[0], [1]], (8, 13), [1, 0, 1, 2], [(1, 0), (1, 1)], periodic=True)

    def body():
        grid = sg.init_grid(case.grid)
        halo = sg.HaloExchange(grid, case.sharding, case.shape, ["f4", "f8"], True) if own_plan else None
        options = {"halo": halo} if own_plan else {"periodic": True}
        for turn in range(3):
            first, second = values(case.shape, turn).astype("f4"), values(case.shape, turn + 10)
            u = sg.ShardedArray.from_global(first, case.sharding, grid)
            v = sg.ShardedArray.from_global(second, case.sharding, grid)
            out = sg.empty(case.shape, case.sharding, grid)
            sg.map_overlap(compiled_stencil, (u, v), case.radius, 0.3, out=out, **options)
            up, left = np.roll(first, 1, 0).astype("f8"), np.roll(first, 1, 1).astype("f8")
            expected = 0.3 * up + 0.3 * left + np.roll(second, -1, 1)
            assert np.array_equal(out.core, expected[u.global_slices])
            pair = sg.map_overlap(stencil, [v, u], case.radius, case.offsets(), periodic=True)
            assert pair.dtype == np.float64
            whole = case.expected([second, first], np.zeros(case.shape))
            assert np.array_equal(pair.core, whole[u.global_slices])

    with sg.forced_path(path):
        spmd(3, body)


def test_out_is_made_where_none_is_given(spmd):
    def body():
        grid = sg.init_grid((2,))
        u = sg.from_function(lambda i, j: i + j, (6, 5), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid, "i2")
        made = sg.map_overlap(lambda u, out, a, b: out[a[0] : b[0], a[1] : b[1]].fill(7), u, 1)
        assert made.dtype == np.int16 and made.layout == u.layout and made.grid is grid and made is not u
        assert made.to_global().tolist() == [[0, 7, 7, 7, 0]] * 6
        assert made.local[0].tolist() == made.local[-1].tolist() == [0] * 5

    spmd(2, body)


def test_boundary_rules_and_stars(spmd):
    """What lies outside the domain is there before the boundary is computed, functions' values too."""

    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, [[0]], halo_sizes=[1, 1])
        u = sg.from_function(lambda i: i**2.0, (8,), s, grid)

        def second(u, out, a, b):
            for i in range(a[0], b[0]):
                out[i] = u[i - 1] - 2 * u[i] + u[i + 1]

        def beyond(local, outside):
            local[outside] = 100.0

        edges = [("edge", (1, -13)), (0.5, (0.5 + 1, 0.5 + 36 - 98)), (beyond, (101, 100 - 62)), ("reflect", (2, -26))]
        for boundary, (first, last) in edges:
            found = sg.map_overlap(second, u, 1, boundary=boundary, corners=False).to_global()
            assert found.tolist() == [first, *[2] * 6, last], boundary

    spmd(3, body)


def simple(u, out, starts, stops):
    for i in range(starts[0], stops[0]):
        out[i] = u[i - 1] + u[i + 1]


def read_only(array):
    array.local.flags.writeable = False
    return array


SPLIT = {"split_axes": [[0]], "halo_sizes": [1, 1]}
BAD_OUT = {
    "local array": (lambda u, s, grid: u.local.copy(), "OutputError", "out is ndarray"),
    "u itself": (lambda u, s, grid: u, "OutputError", "overlaps"),
    "halo": (lambda u, s, grid: sg.zeros((6,), Sharding(grid, [[0]], halo_sizes=[1, 2]), grid), "ShapeError", "layout"),
    "shape": (lambda u, s, grid: sg.zeros((9,), s, grid), "ShapeError", "layout"),
    "read-only": (lambda u, s, grid: read_only(sg.zeros((6,), s, grid)), "OutputError", "read-only"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("own_plan", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("what", BAD_OUT)
def test_a_bad_out_is_refused_by_all(spmd, what, everywhere, own_plan, path):
    make, error, words = BAD_OUT[what]

    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (6,), s, grid)
        halo = sg.HaloExchange(grid, s, (6,), u.dtype) if own_plan else None
        for _ in range(2):
            good = sg.zeros((6,), s, grid, u.dtype)
            with pytest.raises(sg.SpmdError) as caught:
                sg.map_overlap(simple, u, 1, out=make(u, s, grid) if everywhere or grid.rank == 1 else good, halo=halo)
            assert type(caught.value).__name__ == error
            assert words in str(caught.value) and f"on rank {grid.rank if everywhere else 1} " in str(caught.value)
            good = sg.map_overlap(simple, u, 1, out=good, halo=halo, region=np.s_[1:-1])
            assert good.to_global().tolist() == [0, 2, 4, 6, 8, 0]

    with sg.forced_path(path):
        spmd(3, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bad", ["list", "dtype", "layout", "read-only", "number of arrays", "none at all"])
def test_a_bad_field_of_one_rank_is_refused_by_all(spmd, bad, path):
    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (6,), s, grid)
        wrong = {
            "list": [[1.0, 2.0]],
            "dtype": sg.zeros((6,), s, grid, "f4"),
            "layout": sg.zeros((7,), s, grid, u.dtype),
            "read-only": read_only(sg.zeros((6,), s, grid, u.dtype)),
            "number of arrays": (u, u),
            "none at all": (),
        }[bad]
        with sg.HaloExchange(grid, s, (6,), u.dtype) as halo:
            with pytest.raises(sg.SpmdError, match="on rank 1"):
                sg.map_overlap(simple, wrong if grid.rank == 1 else u, 1, halo=halo)
            found = sg.map_overlap(simple, u, 1, halo=halo, region=np.s_[1:-1])
            assert found.to_global().tolist() == [0, 2, 4, 6, 8, 0]

    with sg.forced_path(path):
        spmd(3, body)


def test_what_all_know_is_refused_before_anything_is_sent(spmd):
    def body():
        grid = sg.init_grid((2,))
        s = Sharding(grid, **SPLIT)
        u = sg.zeros((6,), s, grid)
        halo = sg.HaloExchange(grid, s, (6,), "f8")
        cases = [
            (sg.ShapeError, "kernel", lambda: sg.map_overlap("simple", u, 1)),
            (sg.ShapeError, "^map_overlap: radius is 2", lambda: sg.map_overlap(simple, u, 2)),
            (sg.ShapeError, "^map_overlap: region", lambda: sg.map_overlap(simple, u, 1, region=3)),
            (sg.OutputError, "u is ndarray", lambda: sg.map_overlap(simple, u.local, 1)),
            (sg.OutputError, "array 1 of u", lambda: sg.map_overlap(simple, (u, None), 1)),
            (sg.ShapeError, "empty tuple", lambda: sg.map_overlap(simple, (), 1)),
            (sg.GridError, "HaloExchange", lambda: sg.map_overlap(simple, u, 1, halo="mine")),
            (sg.ShardingError, "plan", lambda: sg.map_overlap(simple, u, 1, halo=halo, periodic=True)),
            (sg.ShardingError, "boundary", lambda: sg.map_overlap(simple, u, 1, boundary="sideways")),
            (sg.ShardingError, "boundary", lambda: sg.map_overlap(simple, u, 1, boundary=np.zeros((2, 2)))),
            (sg.ShapeError, "corners", lambda: sg.map_overlap(simple, u, 1, corners=None)),
        ]
        for error, words, call in cases:
            with pytest.raises(error, match=words):
                call()
        halo.start(u)
        with pytest.raises(sg.RequestError, match="under way"):
            sg.map_overlap(simple, u, 1, halo=halo)
        halo.wait()
        halo.close()
        with pytest.raises(sg.RequestError, match="closed"):
            sg.map_overlap(simple, u, 1, halo=halo)
        grid.close()
        with pytest.raises(sg.GridError, match="closed"):
            sg.map_overlap(simple, u, 1)

    spmd(2, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("call", [0, 1, 2])
def test_an_error_of_the_kernel_leaves_the_plan_usable(spmd, call, path):
    """On one rank, in the interior or at the boundary; the others do not hear of it, and nobody hangs."""

    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (12,), s, grid)
        calls = []

        def fragile(*arguments):
            calls.append(arguments)
            if grid.rank == 1 and len(calls) == call + 1:
                raise ZeroDivisionError("of the kernel")
            simple(*arguments)

        if grid.rank == 1:
            with pytest.raises(ZeroDivisionError, match="of the kernel"):
                sg.map_overlap(fragile, u, 1)
        else:
            sg.map_overlap(fragile, u, 1)
            assert len(calls) == 3
        found = sg.map_overlap(simple, u, 1, region=np.s_[1:-1])
        assert found.to_global().tolist() == [0, *range(2, 22, 2), 0]

    with sg.forced_path(path):
        spmd(3, body)


def plans_of(grid):
    return [plan for plans in grid.plans.by_axes.values() for plan in plans.values()]


def test_plans_are_kept_for_a_while_and_die_with_the_grid(spmd):
    def body():
        grid = sg.init_grid((2,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (6,), s, grid)
        sg.map_overlap(simple, u, 1)
        (plan,) = plans_of(grid)
        for _ in range(3):
            u = sg.from_function(lambda i: i, (6,), s, grid)
            sg.map_overlap(simple, u, 1, region=np.s_[1:-1])
            assert plans_of(grid) == [plan]
        first = weakref.ref(plan)
        del plan
        for n in range(40):
            other = sg.from_function(lambda i: i, (2 + n % 20,), s, grid)
            found = sg.map_overlap(simple, other, 1, region=np.s_[1:-1]).to_global()
            assert found.tolist() == [0, *range(2, 2 * (n % 20) + 1, 2), 0]
        assert len(plans_of(grid)) == 16
        gc.collect()
        assert first() is None
        last, mine = weakref.ref(plans_of(grid)[-1]), weakref.ref(grid)
        del grid, s, u, other
        sg.all_reduce(1, sg.init_grid((2,)), [0])  # reports show what a process did last
        gc.collect()
        return mine() is None and last() is None

    assert all(spmd(2, body, seed=1))  # one rank at a time: a collection does nothing while another thread collects


def test_nothing_outlives_a_simulated_run():
    """Neither the plans, which are made on the side, nor their grid, though a report could still name the last call."""

    def body():
        grid = sg.init_grid((2,))
        u = sg.from_function(lambda i: i, (6,), Sharding(grid, **SPLIT), grid)
        sg.map_overlap(simple, u, 1)
        sg.all_reduce(1, grid, [0])
        return weakref.ref(grid), weakref.ref(plans_of(grid)[0]), weakref.ref(u)

    left = sg.run_spmd(body, ranks=2)
    gc.collect()
    assert [reference() for references in left for reference in references] == [None] * 6


def test_lines_of_a_grid_do_not_wait_for_each_other(spmd):
    """Rows of devices that make different numbers of plans still share those of their columns."""

    def body():
        grid = sg.init_grid((2, 2))
        along = [Sharding(grid, [[axis]], halo_sizes=[1, 1]) for axis in (0, 1)]
        for turn in range(3):
            u = sg.from_function(lambda i: i, (6,), along[0], grid)
            found = sg.map_overlap(simple, u, 1, region=np.s_[1:-1])
            assert found.core.tolist() == ([0, 2, 4], [6, 8, 0])[grid.coords[0]]
            for n in range(25 * grid.coords[0]):
                sg.map_overlap(simple, sg.zeros((5 + n,), along[1], grid), 1)

    spmd(4, body)
