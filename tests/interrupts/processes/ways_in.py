"""The ways into the library, with a number that each call brings along: what it gives tells whose call it was."""

import numpy as np

import spmd_grid as sg


class WaysIn:
    """On a grid of one axis.  ``ways``: by name, a function of a number; whether what came back is that number's.

    ``loop``: of `compiled_loop`; None where no compiled loop is to be tried.
    """

    def __init__(self, grid, loop=None):
        self.grid, n = grid, grid.size
        self.split, self.whole = sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), sg.Sharding(grid, [[]])
        self.rows, self.columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        self.shape = (4 * n,)
        self.plan = sg.all_reduce.plan(grid, (4,), "f8", [0])
        self.big_plan = sg.all_reduce.plan(grid, (30_000,), "f8", [0])
        self.halo = sg.HaloExchange(grid, self.split, self.shape, "f8", True)
        self.loops_halo = sg.HaloExchange(grid, self.split, self.shape, "f8", True)
        self.array = sg.zeros(self.shape, self.split, grid)
        self.moved = sg.plan_reshard(self.rows, self.columns, (2 * n, n), "f8")
        self.there, self.back = [(grid.rank + 1) % n], [(grid.rank - 1) % n]
        self.arena = grid.allocate((30_000,), "f8")
        self.loop = loop
        self.ways = {
            "all_reduce": lambda k: np.all(sg.all_reduce(np.full(3, k), grid, [0]) == k * n),
            "all_reduce of 30,000": lambda k: np.all(sg.all_reduce(np.full(30_000, k), grid, [0]) == k * n),
            "all_reduce in the arena": self.reduce_in_arena,
            "all_gather": lambda k: np.all(sg.all_gather(np.full(30_000, k), grid, [0], 0) == k),
            "broadcast": lambda k: np.all(sg.broadcast(np.full(9, k), grid, [0], root=[0]) == k),
            "started": lambda k: np.all(sg.all_reduce.start(np.full(30_000, k), grid, [0]).wait() == k * n),
            "plan.run": lambda k: np.all(self.plan.run(np.full(4, k)) == k * n),
            "plan.run of 30,000": lambda k: np.all(self.big_plan.run(np.full(30_000, k)) == k * n),
            "plan.start": lambda k: np.all(self.plan.start(np.full(4, k)) and self.plan.wait() == k * n),
            "halo.update": lambda k: self.halo_by(k, self.halo.update),
            "halo.start": lambda k: self.halo_by(k, self.start_and_wait),
            "halo.accumulate": self.accumulate,
            "update_halo": lambda k: self.halo_by(k, self.update_plainly),
            "array.update_halo": self.update_array,
            "to_global": lambda k: np.all(self.filled(k).to_global() == k),
            "array.reshard": lambda k: np.all(self.filled(k).reshard(self.whole).local == k),
            "reshard": lambda k: np.all(sg.reshard(np.full(4, k), self.rows, self.whole, grid, self.shape) == k),
            "run_plan": lambda k: np.all(sg.run_plan(self.moved, np.full((2, n), k), grid) == k),
            "send and recv": self.send_and_receive,
            "sum of cells": lambda k: float(sg.sum(self.filled(k))) == k * 4 * n,
            "norm of cells": lambda k: np.isclose(float(sg.norm(self.filled(k))), k * (4 * n) ** 0.5),
            "map_overlap": self.overlap,
            "zeros": lambda k: np.all(sg.zeros(self.shape, self.split, grid).core == 0),
            "from_function": lambda k: np.all(
                sg.from_function(lambda i: i * 0 + k, self.shape, self.rows, grid).core == k
            ),
            "new plan": lambda k: np.all(sg.all_reduce.plan(grid, (2,), "f8", [0]).run(np.full(2, k)) == k * n),
            "new halo": self.new_halo,
        }
        if loop is not None:
            self.ways["compiled loop"] = lambda k: self.halo_by(k, lambda u: self.loop(self.loops_halo, u, 1))

    def filled(self, k):
        array = sg.ShardedArray(self.array.local.copy(), self.array.layout, self.grid)
        array.local[:] = k
        return array

    def halo_by(self, k, update):
        u = np.zeros(6)
        u[1:-1] = k
        update(u)
        return np.all(u == k)

    def start_and_wait(self, u):
        self.halo.start(u)
        self.halo.wait()

    def update_plainly(self, u):
        u[:] = sg.update_halo(u, self.grid, [[0]], [1, 1], True)

    def update_array(self, k):
        array = self.filled(k)
        array.local[[0, -1]] = 0
        array.update_halo(True)
        return np.all(array.local == k)

    def accumulate(self, k):
        u = np.full(6, float(k))
        self.halo.accumulate(u)
        return u.tolist() == [0, 2 * k, k, k, 2 * k, 0]

    def reduce_in_arena(self, k):
        self.arena[:] = k
        return np.all(sg.all_reduce(self.arena, self.grid, [0]) == k * self.grid.size)

    def send_and_receive(self, k):
        sent = sg.send.start(np.full(3, k), self.grid, [0], self.there)
        received = sg.recv(self.grid, [0], self.back)
        sent.wait()
        return np.all(received == k)

    def overlap(self, k):
        def shifted(u, out, starts, stops):
            out[starts[0] : stops[0]] = u[starts[0] - 1 : stops[0] - 1]

        array = self.filled(k)
        return np.all(sg.map_overlap(shifted, array, 1, halo=self.halo).core == k)

    def new_halo(self, k):
        with sg.HaloExchange(self.grid, self.split, self.shape, "f8", True) as halo:
            return self.halo_by(k, halo.update)


def compiled_loop():
    """Updates of a plan in compiled code that holds no GIL."""
    from support.compiled import updates_free

    return updates_free
