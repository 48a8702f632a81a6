"""Processes that know that they share a node: one exchange for a partial value that all of a group get."""

import numpy as np
import pytest

import spmd_grid as sg


def bound_plans(grid):
    """The plans of `sg.reshard` that a grid keeps."""
    return [each for kept in grid.kept.values() if hasattr(kept, "n_bytes") for each in kept.values()]


@pytest.mark.parametrize(
    ("grid", "split", "partial", "target"),
    [
        ((2,), [], [0], []),
        ((3,), [], [0], []),
        ((2, 2), [], [0, 1], []),
        ((2, 2), [], [1], []),
        ((2, 2), [[0]], [1], [[0]]),
    ],
    ids=str,
)
def test_all_reduces_are_one_exchange(spmd, grid, split, partial, target):
    """Two take a meeting more, and Python between them."""

    def body():
        devices = sg.init_grid(grid)
        source, to = sg.Sharding(devices, split, partial_axes=partial), sg.Sharding(devices, target)
        for extent in 128, 8192, 1 << 17, 1 << 20:
            plan = sg.plan_reshard(source, to, (extent,), "f8", links=devices.links())
            assert [step.kind for step in plan.run_steps] == ["exchange"], extent
        own = np.full(source.local_shape((8192,), devices.coords), devices.rank + 1)
        sums = np.arange(1, devices.grid.size + 1).reshape(grid).sum(tuple(partial), keepdims=True)
        wanted = np.broadcast_to(sums, grid)[devices.coords]
        before = set(map(id, bound_plans(devices)))  # of other tests
        assert (sg.reshard(own, source, to, devices, (8192,)) == wanted).all()
        assert all(len(bound.plan.run_steps) == 1 for bound in bound_plans(devices) if id(bound) not in before)

    spmd(int(np.prod(grid)), body)


def test_without_links_each_process_is_a_node():
    """Equal arguments give equal plans, wherever they are made."""
    grid = sg.Grid((2, 2))
    source, target = sg.Sharding(grid, [], partial_axes=[0, 1]), sg.Sharding(grid, [])
    plans = [sg.plan_reshard(source, target, (1 << 17,), "f8", links=links) for links in (None, sg.LinkModel())]
    assert plans[0] == plans[1] and [step.kind for step in plans[0].run_steps] == ["reduce_scatter", "all_gather"]
