"""Make a million halo updates and check each: none may be lost, and memory must not grow.

    mpiexec -n 2 python scripts/soak_halo.py --updates 1000000

In each step every rank writes new values, computed from the step and the rank, into its faces; after the update its
halo must hold the values that its neighbours wrote in the same step.  Updates are called first from Python, then in a
compiled loop.  Exits with 1 after a lost update, or if resident memory has grown.  There may be more ranks than cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numba
import numpy as np

import spmd_grid as sg
from spmd_grid.bench.halo.kernels import rewrite_faces, three_sides, wrong_halos
from spmd_grid.halo.exchange import HaloExchange

_rewrite = rewrite_faces(1)
NONE = -1
_WARM_UP = 2000  # updates


def run_steps(
    halo: HaloExchange,
    u: sg.ShardedArray | np.ndarray,
    views: tuple[np.ndarray, ...],
    width: int,
    start: int,
    stop: int,
    every: int,
    ranks: int,
    rank: int,
    below: int,
    above: int,
) -> tuple[int, int]:
    """Number of wrong halo cells in the steps [start, stop), and the first step with one."""
    wrong, first = 0, NONE
    for step in range(start, stop):
        _rewrite(views, width, step * ranks + rank)
        halo.update(u)
        if step % every == 0:
            found = wrong_halos(views, width, step * ranks + below, step * ranks + above)
            if found and first == NONE:
                first = step
            wrong += found
    return wrong, first


run_loop = numba.njit(nogil=True)(run_steps)


def resident_mib() -> float:
    """MiB of this process's resident memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def soak(grid: sg.ProcessGrid, options: argparse.Namespace) -> bool:
    """Make all updates; returns whether all went well, the same on all ranks."""
    width, n = options.width, options.cells
    cut = 0 if options.cut == "first" else 1
    sharding = sg.Sharding(grid, [[0] if dim == cut else [] for dim in range(2)], halo_sizes=[width, width])
    shape = tuple(n * grid.size if dim == cut else n for dim in range(2))
    u = sg.zeros(shape, sharding, grid)
    views = three_sides([u.local], cut)
    neighbours = (grid.rank - 1) % grid.size, (grid.rank + 1) % grid.size
    constants = options.every, grid.size, grid.rank, *neighbours

    def say(text: str) -> None:
        if grid.rank == 0:
            print(text, flush=True)

    passed = True
    with HaloExchange(grid, sharding, shape, "float64", periodic=True, path=options.path) as halo:
        say(f"{grid.size} ranks, local arrays {u.local.shape}, path {options.path or 'chosen by the plan'}")
        ways = {"python": (run_steps, u), "loop": (run_loop, u.local)}
        for run, field in ways.values():
            run(halo, field, views, width, 0, _WARM_UP, *constants)
        step = _WARM_UP
        for name in options.ways:
            run, field = ways[name]
            before = resident_mib()
            chunk = max(1, options.updates // 10)
            for done in range(0, options.updates, chunk):
                count = min(chunk, options.updates - done)
                began = time.perf_counter()
                wrong, first = run(halo, field, views, width, step, step + count, *constants)
                seconds = time.perf_counter() - began
                step += count
                wrong = int(sg.all_reduce(wrong, grid, [0], "sum"))
                if wrong:
                    if first != NONE:
                        print(f"rank {grid.rank}: update {first} is the first lost one ({name})", flush=True)
                    say(f"LOST: {wrong} halo cells hold values of another step ({name})")
                    return False
                say(f"{name:6s} {done + count:9d} updates, {1e6 * seconds / count:8.2f} us each, checked")
            after = resident_mib()
            growth = float(sg.all_reduce(after - before, grid, [0], "max"))
            verdict = "GROWTH" if growth > options.growth else "memory"
            passed = passed and growth <= options.growth
            say(f"{name:6s} {verdict}: {before:.1f} MiB before, {after:.1f} after; at most {growth:+.2f} MiB")
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=1_000_000, help="updates from Python, and again in the loop")
    parser.add_argument("--path", choices=["direct", "read", "staged", "message"], help="default: chosen by the plan")
    parser.add_argument("--cells", type=int, default=64, help="cells along each dimension of a rank's block (64)")
    parser.add_argument("--width", type=int, default=1, help="width of the halo (1)")
    parser.add_argument("--cut", choices=["first", "last"], default="first", help="the dimension that is cut (first)")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="check every K-th update (1)")
    parser.add_argument("--ways", nargs="+", choices=["python", "loop"], default=["python", "loop"])
    parser.add_argument(
        "--growth", type=float, default=4.0, metavar="MIB", help="allowed growth of resident memory (4)"
    )
    options = parser.parse_args()
    grid = sg.init_grid((-1,))
    passed = soak(grid, options)
    if grid.rank == 0:
        print("all updates arrived, memory is steady" if passed else "FAILED", flush=True)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
