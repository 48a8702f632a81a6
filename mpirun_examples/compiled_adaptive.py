"""A time loop that chooses its steps by the error of all ranks, compiled by numba as a whole.

    mpiexec -n 4 python mpirun_examples/compiled_adaptive.py
    python -m spmd_grid run -n 4 mpirun_examples/compiled_adaptive.py

The Fisher-KPP equation u' = D u'' + r u (1 - u) on a line that is closed to a ring: a patch grows and spreads.  Each
step is Heun's second-order method with Euler's first-order one inside; their difference is the error.  The largest
error of all ranks decides, alike on all of them, whether the step counts and how long the next one is.  On any number
of ranks the result is that of one process, except for rounding.
"""

import sys

import numba
import numpy as np

import spmd_grid as sg

N, LENGTH = 301, 60.0
DIFFUSION, RATE = 1.0, 2.0
END, TOLERANCE = 2.0, 1e-4


@numba.njit(nogil=True, cache=True)
def slope(u, i, spread):
    """The right-hand side of the equation at cell ``i``."""
    return spread * (u[i - 1] - 2 * u[i] + u[i + 1]) + RATE * u[i] * (1 - u[i])


@numba.njit(nogil=True, cache=True)
def evolve(halo, largest, u, end, spread):
    """Integrates up to time ``end``; the number of steps that counted, and of those that were repeated."""
    euler, heun, first = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    mine, of_all = np.empty(1), np.empty(1)
    time, dt, counted, repeated = 0.0, 0.1, 0, 0
    halo.update(u)
    while time < end:
        dt = min(dt, end - time)
        for i in range(1, len(u) - 1):
            first[i] = slope(u, i, spread)
            euler[i] = u[i] + dt * first[i]
        halo.update(euler)
        mine[0] = 0.0
        for i in range(1, len(u) - 1):
            heun[i] = u[i] + 0.5 * dt * (first[i] + slope(euler, i, spread))
            mine[0] = max(mine[0], abs(heun[i] - euler[i]))
        largest.run(mine, of_all)
        if of_all[0] <= TOLERANCE:
            time += dt
            counted += 1
            u[:] = heun
            halo.update(u)
        else:
            repeated += 1
        dt *= min(2.0, max(0.2, 0.9 * np.sqrt(TOLERANCE / max(of_all[0], 1e-300))))
    return counted, repeated


def patch(i: np.ndarray) -> np.ndarray:
    """The state at the beginning."""
    return np.exp(-(((i - N // 2) * LENGTH / N) ** 2))


class Ring:
    """The halo of one process that has the whole ring: its ends."""

    @staticmethod
    def update(u: np.ndarray) -> None:
        u[0], u[-1] = u[-2], u[1]


class Alone:
    """The maximum of one process."""

    @staticmethod
    def run(x: np.ndarray, out: np.ndarray) -> None:
        out[:] = x


def main() -> int:
    grid = sg.init_grid((-1,), axis_names=("x",))
    sharding = sg.Sharding(grid, [["x"]], halo_sizes=[1, 1])
    halo = sg.HaloExchange(grid, sharding, (N,), "float64", periodic=True)
    largest = sg.all_reduce.plan(grid, (1,), "float64", reduction="max")
    spread = DIFFUSION * (N / LENGTH) ** 2

    u = sg.from_function(patch, (N,), sharding, grid)
    counted, repeated = evolve(halo, largest, u.local, END, spread)
    u.mark_dirty()

    whole, alone = u.to_global(), np.pad(patch(np.arange(N)), 1)
    steps = evolve.py_func(Ring, Alone, alone, END, spread) if grid.rank == 0 else (counted, repeated)
    is_equal = grid.rank > 0 or (steps == (counted, repeated) and np.allclose(whole, alone[1:-1], rtol=1e-12, atol=0))
    if grid.rank == 0:
        print(
            f"compiled_adaptive: {N} cells on {grid.size} ranks, {counted} steps and {repeated} repeated ones:"
            f" {'equal to' if is_equal else 'NOT'} the serial result"
        )
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
