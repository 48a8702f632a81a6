"""The arrays that HaloExchange.accumulate must give, and the check of plans with anything there is."""

import random

import numpy as np

import spmd_grid as sg
from support.halo.any_plan import any_sharding
from support.halo.exchange_oracle import Copies, dawdle, in_memory, own_random, replica

COPYING = ["leave", "edge", "reflect", "symmetric"]


def drawn(seed, coords, shape, dtype="i8"):
    """Any values, by device."""
    return np.random.default_rng([seed, *coords]).integers(-50, 50, shape).astype(dtype)


def accumulated(layout, coords, seed, dtype="i8", **plan):
    """The local array that accumulate makes of `drawn` values: all devices' halos are added to the global array."""
    grid, sharding = layout.grid, layout.sharding
    total = np.zeros(int(np.prod(layout.global_shape)), dtype)
    devices = [grid.multi_index(linear) for linear in range(grid.size)]
    for device in devices:
        if replica(sharding, device) == replica(sharding, coords):
            copies = Copies(layout, device, **plan)
            np.add.at(total, copies.cells[copies.halo], drawn(seed, device, copies.cells.shape, dtype)[copies.halo])
    mine = Copies(layout, coords, **plan)
    local = drawn(seed, coords, mine.cells.shape, dtype)
    local[mine.core] += total[mine.cells[mine.core]]
    local[mine.halo] = 0
    return local


def check_accumulate(grid, sharding, shape, path, rng=None, memory=("C", "F"), times=3, **plan):
    with sg.HaloExchange(grid, sharding, shape, "i8", path=path, **plan) as halo:
        layout = halo.layout
        local_shape = layout.local_shape(grid.coords)
        axes = list(range(grid.grid.ndim))
        for seed in range(times):
            x = in_memory(drawn(seed, grid.coords, local_shape), memory[seed % len(memory)], grid)
            y = in_memory(drawn(seed + 50, grid.coords, local_shape), memory[(seed + 1) % len(memory)], grid)
            before = x.copy(), y.copy()
            if rng is not None:
                dawdle(rng)
            halo.accumulate(y)
            wanted = accumulated(layout, grid.coords, seed + 50, **plan)
            assert np.array_equal(y, wanted), (str(layout), plan, grid.coords, before[1], y, wanted)
            if all(isinstance(rule, str) for sides in halo.pattern.boundary for rule in sides):
                halo.update(x)
                products = np.array([np.sum(x * before[1]), np.sum(before[0] * y)])
                there, back = sg.all_reduce(products, grid, axes, "sum")
                assert there == back


def check_any(grid_shape, split_axes, count, seed, path, slow=False, rules=COPYING):
    """Runs on every rank: ``count`` plans with anything there is, on one grid."""
    grid, chance = sg.init_grid(grid_shape), random.Random(seed)
    rng = own_random(seed, grid) if slow else None
    for _ in range(count):
        sharding, shape, plan = any_sharding(chance, grid, split_axes)
        plan["boundary"] = [(chance.choice(rules), chance.choice(rules)) for _ in split_axes]
        check_accumulate(grid, sharding, shape, path, rng, **plan)
