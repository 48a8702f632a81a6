"""Updates of halos that slices ask for: the same cells by messages, and by the plan that layouts used again get."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.halo import kept_updates

LAYOUTS = {
    "uneven rows": ((3,), (7, 4), [[0]], [1, 2]),
    "an empty block": ((3,), (4, 2), [[0]], [1, 1]),
    "corners": ((2, 3), (9, 8), [[0], [1]], [1, 1, 2, 1]),
    "axes swapped": ((2, 3), (8, 9), [[1], [0]], [2, 0, 1, 1]),
    "one axis of two": ((2, 3), (5, 10), [[], [1]], [1, 1]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_update_fills_the_halos(spmd, layout):
    shape, extents, axes, halos = LAYOUTS[layout]

    def body():
        grid = sg.init_grid(shape)
        sharding = sg.Sharding(grid, axes, halo_sizes=halos)
        rng = np.random.default_rng(3)
        for dtype in ("f8", "i2"):
            a = sg.zeros(extents, sharding, grid, dtype)
            for step in range(6):  # the plan is made in the third
                values = (100 * rng.random(extents)).astype(dtype)
                want = sg.from_global(values, sharding, grid)
                a.core[...] = want.core
                kept_updates.refresh(a.local, grid, a.layout)
                np.testing.assert_array_equal(a.local, want.local, str(step))
        (updates,) = grid.updates.by_axes.values()
        assert [isinstance(each, int) for each in updates.values()] == [False, False]

    spmd(6 if len(shape) == 2 else 3, body)


def test_slices_of_an_array_that_changes_in_every_step(spmd):
    def body():
        grid = sg.init_grid((3,))
        recorder, grid.process.recorder = grid.process.recorder, None  # operations that are recorded make no plans
        try:
            values = np.random.default_rng(4).random((14, 5))
            a = sg.from_global(values, sg.Sharding(grid, [[0]], halo_sizes=[2, 2]), grid)
            for _ in range(7):
                kept = a[2:]  # shows what is written to its source after the halos were updated
                a[1:-1, 1:-1] = 0.5 * (a[:-2, 1:-1] + a[2:, 1:-1]) - a[1:-1, 2:]
                values[1:-1, 1:-1] = 0.5 * (values[:-2, 1:-1] + values[2:, 1:-1]) - values[1:-1, 2:]
                np.testing.assert_array_equal(a.to_global(), values)
                np.testing.assert_array_equal(kept.to_global(), values[2:])
        finally:
            grid.process.recorder = recorder
        (updates,) = grid.updates.by_axes.values()
        assert not isinstance(next(iter(updates.values())), int)
        grid.close()
        assert grid.updates is None

    spmd(3, body)


def test_few_plans_are_kept(spmd):
    def body():
        grid = sg.init_grid((3,))
        for _ in range(4):
            for n in range(6, 26):
                a = sg.zeros((n,), sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
                kept_updates.refresh(a.local, grid, a.layout)
        (updates,) = grid.updates.by_axes.values()
        assert len(updates) == 8 and all(isinstance(each, int) for each in updates.values())
        with pytest.raises(sg.GridError):
            grid.close()
            kept_updates.refresh(a.local, grid, a.layout)

    spmd(3, body)


def test_other_arrays_on_other_processes_are_refused_by_all(spmd):
    def body():
        grid = sg.init_grid((3,))
        layouts = [Layout(sg.Sharding(grid, [[0]], halo_sizes=halo), (9,)) for halo in ([1, 1], [1, 0])]
        arrays = [np.zeros(layout.local_shape(grid.coords)) for layout in layouts]
        for _ in range(4):
            for local, layout in zip(arrays, layouts):
                kept_updates.refresh(local, grid, layout)
        with pytest.raises(sg.MismatchError, match="update_halo"):
            number = grid.rank // 2
            kept_updates.refresh(arrays[number], grid, layouts[number])

    spmd(3, body)
