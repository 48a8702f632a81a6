"""All-pairs forces on a ring: every rank keeps its particles, and copies of all others pass by, one shift at a time.

    mpiexec -n 4 python mpirun_examples/ring_shift.py
    python -m spmd_grid run -n 4 mpirun_examples/ring_shift.py

Runs on any number of ranks; their numbers of particles may differ, because shapes travel with the messages.
"""

import sys

import numpy as np

import spmd_grid as sg

N_PARTICLES = 1009
SOFTENING = 1e-3
TOLERANCE = 1e-12


def attraction(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Gravity on the particles ``here`` from the particles ``there``, with G = 1; each row is x, y, z, mass."""
    apart = there[None, :, :3] - here[:, None, :3]
    distance = np.sqrt((apart**2).sum(axis=2) + SOFTENING**2)
    return np.einsum("ij,ijk->ik", here[:, None, 3] * there[None, :, 3] / distance**3, apart)


def main() -> int:
    grid = sg.init_grid((-1,), axis_names=("ring",))
    particles = np.random.default_rng(2024).random((N_PARTICLES, 4))
    sharding = sg.Sharding(grid, [["ring"], []])
    own = sg.ShardedArray.from_global(particles, sharding, grid).local

    forces = np.zeros((len(own), 3))
    passing = own
    for turn in range(grid.size):
        if turn:
            passing = sg.shift(passing, grid, ["ring"], shift_axis="ring", offset=1, rotate=True)
        forces += attraction(own, passing)

    result = sg.ShardedArray.from_local(forces, sharding, grid, (N_PARTICLES, 3)).to_global()
    expected = attraction(particles, particles)
    error = np.abs(result - expected).max() / np.abs(expected).max()
    counts = sg.all_gather(np.array([len(own)]), grid, ["ring"], gather_axis=0)
    if grid.rank == 0:
        print(
            f"ring_shift: forces among {N_PARTICLES} particles on a ring of {grid.size}"
            f" ({', '.join(map(str, counts))} each): relative error against serial numpy {error:.1e}"
        )
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
