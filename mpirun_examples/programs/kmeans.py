"""Steps of k-means on points that are spread over processes, traced and by hand.

    mpiexec -n 2 python mpirun_examples/programs/kmeans.py

Centres are the same on all processes.  Each point has a last coordinate of 1, so the sums of the points of a cluster
and their number are one product, and one communication.  No point has two nearest centres.
"""

import sys
from collections.abc import Callable

import numpy as np
from side_by_side import Problem, check

import spmd_grid as sg

TOLERANCE = 1e-10
STEPS = 4


def kmeans(points, centres):
    for _ in range(STEPS):
        # |x - c|^2 without |x|^2, which is the same for all centres
        distances = np.sum(centres * centres, axis=1) - 2 * (points @ centres.T)
        members = (distances == np.min(distances, axis=1, keepdims=True)).astype(points.dtype)
        sums = members.T @ points
        centres = sums / np.maximum(sums[:, -1:], 1)
    return centres


def by_hand(grid: sg.ProcessGrid, points: np.ndarray, centres: np.ndarray) -> Callable[[], np.ndarray]:
    combine = sg.all_reduce.plan(grid, centres.shape, points.dtype, [0], "sum")
    distances = np.empty((len(points), len(centres)), points.dtype)
    members, partial_sums = np.empty_like(distances), grid.allocate(centres.shape, points.dtype)

    def call() -> np.ndarray:
        found = centres
        for _ in range(STEPS):
            np.matmul(points, found.T, out=distances)
            np.multiply(2, distances, out=distances)
            np.subtract(np.sum(found * found, axis=1), distances, out=distances)
            np.equal(distances, np.min(distances, axis=1, keepdims=True), out=members)
            sums = combine.run(np.matmul(members.T, points, out=partial_sums))
            found = sums / np.maximum(sums[:, -1:], 1)
        return found

    return call


def problem(grid: sg.ProcessGrid, n: int = 600, clusters: int = 8) -> Problem:
    rng = np.random.default_rng(4)
    middle = 10 * rng.standard_normal((clusters, 3))
    points = middle[rng.integers(0, clusters, n)] + rng.standard_normal((n, 3))
    points = np.concatenate([points, np.ones((n, 1))], axis=1)
    arrays = [points, points[:clusters].copy()]
    rows, everywhere = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [])
    return Problem(kmeans, arrays, [rows, everywhere], everywhere, by_hand)


def main() -> int:
    grid = sg.init_grid((-1,))
    return check("kmeans", problem(grid), grid, TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
