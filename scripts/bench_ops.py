#!/usr/bin/env python
"""Cost per call of the operations over raw mpi4py, interleaved in one run.

    mpiexec -n 2 python scripts/bench_ops.py

Run it on at most as many ranks as cores.  Both sides write into preallocated arrays.  Each round times a batch of
calls of one contender and then of the other; the table shows the median over rounds, the spread (10th to 90th
percentile) of ours, and the difference and ratio of the medians.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import spmd_grid as sg

comm = MPI.COMM_WORLD


def cases(n_bytes, grid):
    """(name, ours, raw) with every buffer made beforehand; raw is what one writes by hand with mpi4py."""
    n = n_bytes // 8
    size = comm.size
    x = np.random.default_rng(comm.rank).random(n)
    total, gathered = np.empty(n), np.empty(size * n)
    yield (
        "all_reduce sum",
        lambda: sg.all_reduce(x, grid, [0], "sum", out=total),
        lambda: comm.Allreduce(x, total),
    )
    yield (
        "all_gather axis 0",
        lambda: sg.all_gather(x, grid, [0], 0, out=gathered),
        lambda: comm.Allgather(x, gathered),
    )
    rows = 1 if n == 1 else 256
    block = x.reshape(rows, -1)
    wide = np.empty((rows, size * block.shape[1]))
    staging = np.empty((size, *block.shape))

    def raw_last_axis():
        comm.Allgather(block, staging)
        np.concatenate(staging, axis=1, out=wide)

    yield "all_gather last axis", lambda: sg.all_gather(block, grid, [0], 1, out=wide), raw_last_axis
    received = np.empty(n)
    is_root = comm.rank == 0

    def raw_broadcast():
        if is_root:
            received[:] = x
        comm.Bcast(received, 0)

    yield "broadcast", lambda: sg.broadcast(x if is_root else None, grid, [0], [0], out=received), raw_broadcast


def batch_seconds(function, n):
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(n):
        function()
    return comm.allreduce((time.perf_counter() - start) / n, MPI.MAX)


def measure(ours, raw, calls, rounds):
    """Seconds per call, one row per round: ours, raw; who goes first alternates."""
    ours(), raw()
    times = np.empty((rounds, 2))
    for i in range(rounds):
        for contender in (0, 1) if i % 2 else (1, 0):
            times[i, contender] = batch_seconds((ours, raw)[contender], calls)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--json", metavar="PATH", help="write the figures here")
    parser.add_argument("--markdown", metavar="PATH", help="write the README's table here")
    options = parser.parse_args()
    grid = sg.init_grid((comm.size,))
    rows = []
    if comm.rank == 0:
        print(f"{comm.size} ranks, {os.cpu_count()} cores, {MPI.Get_library_version().splitlines()[0].strip()}")
        print(f"{'us per call':28s}{'ours':>9s}{'(10-90 %)':>17s}{'raw':>9s}{'ours-raw':>10s}{'ratio':>8s}")
    for n_bytes, calls in ((8, 1000), (1 << 20, 40)):
        for name, ours, raw in cases(n_bytes, grid):
            times = 1e6 * measure(ours, raw, calls, options.rounds)
            mine, theirs = np.median(times, axis=0)
            low, high = np.percentile(times[:, 0], [10, 90])
            label = f"{name}, {'8 B' if n_bytes == 8 else '1 MiB'}"
            rows.append({"case": label, "ours_us": mine, "low_us": low, "high_us": high, "raw_us": theirs})
            if comm.rank == 0:
                spread = f"({low:.2f}-{high:.2f})"
                print(f"{label:28s}{mine:9.2f}{spread:>17s}{theirs:9.2f}{mine - theirs:10.2f}{mine / theirs:8.2f}")
    if comm.rank == 0 and options.json:
        Path(options.json).write_text(json.dumps({"machine": machine(), "ranks": comm.size, "rows": rows}, indent=1))
    if comm.rank == 0 and options.markdown:
        Path(options.markdown).write_text(markdown(rows))


def machine():
    processor = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    library = " ".join(MPI.Get_library_version().splitlines()[0].split())
    return f"{os.cpu_count()} cores of {processor}, {library}"


def markdown(rows):
    lines = [
        f"Microseconds per call into a preallocated `out`, {comm.size} ranks on {machine()}; medians, interleaved with"
        " raw mpi4py in one run of `mpiexec -n 2 python scripts/bench_ops.py`.",
        "",
        "| operation | spmd_grid | 10-90 % | raw mpi4py | ratio |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['case']} | {row['ours_us']:.1f} | {row['low_us']:.1f}-{row['high_us']:.1f} | {row['raw_us']:.1f} |"
            f" {row['ours_us'] / row['raw_us']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
