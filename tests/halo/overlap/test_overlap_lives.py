"""map_overlap: how long the plans that it makes on the side are kept, and who shares them."""

import gc
import weakref

import numpy as np
from support.halo.overlap_cases import SPLIT, simple

import spmd_grid as sg
from spmd_grid.grid.sharding import Sharding


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
        for _turn in range(3):
            u = sg.from_function(lambda i: i, (6,), along[0], grid)
            found = sg.map_overlap(simple, u, 1, region=np.s_[1:-1])
            assert found.core.tolist() == ([0, 2, 4], [6, 8, 0])[grid.coords[0]]
            for n in range(25 * grid.coords[0]):
                sg.map_overlap(simple, sg.zeros((5 + n,), along[1], grid), 1)

    spmd(4, body)
