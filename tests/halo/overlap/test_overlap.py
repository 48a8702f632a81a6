"""map_overlap: what it computes is what numpy computes on the whole array, each cell once."""

import numpy as np
import pytest
from support.halo.overlap_cases import CASES, PATHS, Case, compiled_stencil, stencil, values

import spmd_grid as sg
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo import overlap


@pytest.fixture(params=[1 << 20, 100], ids=["one tile", "many tiles"])
def tile_bytes(request, monkeypatch):
    monkeypatch.setattr(overlap, "_TILE_BYTES", request.param)


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(3)
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
    """Cells outside the domain are filled before the boundary is computed, by functions too."""

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
