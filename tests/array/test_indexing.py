"""Global indices: who owns a cell, where it lies here, and which cells are here; against an array of all indices."""

import numpy as np
import pytest

import spmd_grid as sg

LAYOUTS = {
    "uneven": ((3,), (7,), [[0]], {}),
    "empty blocks": ((4,), (5,), [[0]], {"halo_sizes": [1, 2]}),
    "fewer cells than devices": ((4,), (2,), [[0]], {"halo_sizes": [1, 1]}),
    "no cells": ((2,), (0, 3), [[0]], {"halo_sizes": [1, 1]}),
    "two dimensions": ((2, 3), (5, 7), [[0], [1]], {"halo_sizes": [1, 0, 0, 2]}),
    "swapped": ((2, 3), (5, 7), [[1], [0]], {"blocks": "balanced", "halo_sizes": [0, 1, 2, 0]}),
    "several axes on one dimension": ((2, 3), (7, 2), [[0, 1]], {"halo_sizes": [1, 1]}),
    "the other order": ((2, 3), (2, 7), [[], [1, 0]], {"halo_sizes": [2, 1]}),
    "explicit offsets": ((3,), (6,), [[0]], {"sharded_dims_offsets": [0, 4, 4, 6], "halo_sizes": [1, 1]}),
    "replicated": ((2, 2), (5, 3), [[1]], {"halo_sizes": [1, 1]}),
    "replicated on all": ((2,), (3,), [], {}),
    "partial": ((2, 2), (5,), [[0]], {"partial_axes": [1]}),
    "halos wider than blocks": ((4,), (6,), [[0]], {"halo_sizes": [3, 5]}),
    "no dimensions": ((2,), (), [], {}),
}


def n_of(layout):
    return int(np.prod(LAYOUTS[layout][0]))


def array_of(layout):
    shape, global_shape, split_axes, options = LAYOUTS[layout]
    grid = sg.init_grid(shape)
    return sg.zeros(global_shape, sg.Sharding(grid, split_axes, **options), grid), grid


def all_cells(shape):
    return list(np.ndindex(*shape))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_owner_of(spmd, layout):
    def body():
        a, grid = array_of(layout)
        numbers = np.arange(np.prod(a.shape, dtype=int)).reshape(a.shape)
        return grid.coords, numbers[a.global_slices].ravel().tolist(), [a.owner_of(cell) for cell in all_cells(a.shape)]

    results = spmd(n_of(layout), body)
    cores = {coords: numbers for coords, numbers, _ in results}
    owners = results[0][2]
    assert all(found == owners for _, _, found in results)
    for number, owner in enumerate(owners):
        holders = [coords for coords, numbers in cores.items() if number in numbers]
        assert owner == min(holders)  # 0 on the axes along which several hold it


@pytest.mark.parametrize("layout", LAYOUTS)
def test_local_index(spmd, layout):
    def body():
        a, grid = array_of(layout)
        cells = all_cells(a.shape)
        whole = np.arange(1, len(cells) + 1).reshape(a.shape)
        filled = a.local.astype(int)
        box = a.layout.local_box(grid.coords).intersect(a.layout.domain_box)
        filled[a.layout.in_domain_local(grid.coords).slices()] = whole[box.slices()]
        core = filled[..., *a.layout.core_in_local(grid.coords).slices()]
        for cell in cells:
            place = a.local_index(cell)
            assert (place is not None) == (whole[cell] in core)
            assert place is None or filled[place] == whole[cell]
            place = a.local_index(np.array(cell, int), halos=True)
            assert (place is not None) == (whole[cell] in filled)
            assert place is None or filled[place] == whole[cell]
            assert a.local_index(cell) is None or a.local_index(cell) == place
            place = a.local_index(list(cell))
            assert place is None or all(type(i) is int for i in place)
        return True

    assert all(spmd(n_of(layout), body))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_global_indices(spmd, layout):
    def body():
        a, grid = array_of(layout)
        core, local = a.global_indices(), a.global_indices(halos=True)
        assert len(core) == len(local) == a.ndim
        assert np.broadcast_shapes(*[i.shape for i in core]) == a.core.shape
        assert np.broadcast_shapes(*[i.shape for i in local]) == a.local.shape
        for dim in range(a.ndim):
            assert core[dim].dtype.kind == "i" and core[dim].shape[dim] == core[dim].size
            expected = np.ogrid[a.global_slices][dim]
            assert np.array_equal(core[dim], expected)
            low, high = a.sharding.halo_of(dim)
            start, stop = a.global_slices[dim].start, a.global_slices[dim].stop
            assert local[dim].ravel().tolist() == list(range(start - low, stop + high))
        # The two ways to fill an array say the same.
        b = sg.from_function(lambda *i: sum(k * 10**n for n, k in enumerate(i)) + 0.0, a.shape, a.sharding, grid)
        if not a.sharding.partial_axes:
            a.core[...] = sum(k * 10**n for n, k in enumerate(core))
            assert np.array_equal(a.core, b.core)
        return True

    assert all(spmd(n_of(layout), body))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_coordinates(spmd, layout):
    def body():
        a, _ = array_of(layout)
        origin, spacing = [10.0 * dim for dim in range(a.ndim)], np.arange(1, a.ndim + 1) / 4
        for halos in False, True:
            indices = a.global_indices(halos)
            for found, i in zip(a.coordinates(halos=halos), indices, strict=True):
                assert found.dtype == np.float64 and np.array_equal(found, i)
            for dim, found in enumerate(a.coordinates(origin, spacing, halos)):
                assert np.array_equal(found, 10.0 * dim + (dim + 1) / 4 * indices[dim])
            for found, i in zip(a.coordinates(3, -0.5, halos=halos), indices, strict=True):
                assert np.array_equal(found, 3 - 0.5 * i)
        return True

    assert all(spmd(n_of(layout), body))


def test_global_slices_assemble_the_whole(spmd):
    def body():
        a, grid = array_of("two dimensions")
        a.core[...] = grid.rank
        return a.global_slices, grid.rank, a.to_global()

    results = spmd(6, body)
    whole = np.full((5, 7), -1.0)
    for slices, rank, _ in results:
        whole[slices] = rank
    assert all(np.array_equal(whole, assembled) for _, _, assembled in results)


BAD = [(-1, 0), (5, 0), (0, 7), (0,), (0, 0, 0), 3, None, (1.0, 0), (True, 0), "00", ((0, 0),)]


@pytest.mark.parametrize("index", BAD, ids=str)
def test_cells_outside_are_refused(index):
    def body():
        a, _ = array_of("two dimensions")
        for ask in a.owner_of, a.local_index, lambda i: a.local_index(i, halos=True):
            with pytest.raises(sg.ShapeError, match=r"index=.* 2 dimensions of global shape \(5, 7\)"):
                ask(index)

    sg.run_spmd(body, ranks=6)


@pytest.mark.parametrize(
    ("origin", "spacing"),
    [([1, 2, 3], 1), (0, [1]), ("x", 1), (0, None), (0, [[1, 2]]), (1j, 1), ([1, [2]], 0)],
    ids=str,
)
def test_coordinates_that_do_not_fit(origin, spacing):
    def body():
        a, _ = array_of("two dimensions")
        with pytest.raises(sg.ShapeError, match="one for each of 2 dimensions"):
            a.coordinates(origin, spacing)

    sg.run_spmd(body, ranks=6)
