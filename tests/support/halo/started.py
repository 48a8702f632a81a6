"""A plan with arrays whose update is started and waited for, and the values that must come."""

import numpy as np

import spmd_grid as sg
from support.halo.exchange_oracle import Copies, in_memory, values_at

LAYOUTS = [
    # split_axes, halo sizes, shape, periodic: on a grid of 2 x 2
    ([[0], [1]], [1, 2, 2, 1], (4, 5), [True, False]),
    ([[1], [0]], [1, 0, 2, 1], (3, 6), [False, True]),
    ([[0, 1]], [1, 1], (6,), [False]),
    ([[], [1]], [3, 3], (2, 3), [False, False]),
]


class Started:
    """A plan with an array, and what the array must become."""

    def __init__(self, grid, number, path, memory="C", n_fields=1):
        split_axes, halo_sizes, shape, periodic = LAYOUTS[number % len(LAYOUTS)]
        sharding = sg.Sharding(grid, split_axes, halo_sizes=halo_sizes)
        self.halo = sg.HaloExchange(grid, sharding, shape, "i8", periodic, n_fields=n_fields, path=path)
        self.copies = Copies(self.halo.layout, grid.coords, periodic)
        self.grid, self.number, self.step = grid, number, 0
        self.fields = [in_memory(np.full(self.copies.cells.shape, -3), memory, grid) for _ in range(n_fields)]

    def fill(self):
        self.step += 1
        self.wanted = []
        for f, u in enumerate(self.fields):
            values = values_at(self.step + 7 * self.number, self.halo.layout, self.grid.coords) + 10**7 * f
            u[self.copies.core] = values[self.copies.cells[self.copies.core]]
            self.wanted.append(self.copies.refreshed(u, values))

    def start(self):
        self.fill()
        self.halo.start(*self.fields)

    def wait(self):
        self.halo.wait()
        self.check()

    def check(self):
        for u, wanted in zip(self.fields, self.wanted, strict=True):
            assert np.array_equal(u, wanted), (self.grid.coords, self.number, self.step, u, wanted)
