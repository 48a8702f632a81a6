"""A program that compares a sample of everything with numpy: ``checks.py [PART...]``, on 2 processes or more.

Its grid is 2 x n where there are enough processes for that, a line otherwise.  Prints a line per part, from the first
process; a wrong result is an AssertionError, which ends the job.
"""

import socket
import sys
import time

import numpy as np

import spmd_grid as sg
from support.compiled import updates_free
from support.ops.compiled_runs import in_loop
from support.ops.ops_oracle import expected, same, sample

_SHAPES = ((1, 3), (13, 7), (160, 90))  # in a frame, in a few messages, in the arena


def check(is_right, *about):
    if not is_right:
        raise AssertionError((socket.gethostname(), *about))


def calls_of(grid, axes):
    """The operations on ``axes``, with their arguments, and whether this member's array is ignored."""
    root = [grid.shape[axis] - 1 for axis in axes]
    elsewhere = any(grid.coords[axis] != grid.shape[axis] - 1 for axis in axes)
    return {
        "all_gather": ({"gather_axis": 0}, False),
        "all_reduce": ({"reduction": "sum"}, False),
        "all_slice": ({"slice_axis": 0}, False),
        "all_to_all": ({"split_axis": 0, "concat_axis": 1}, False),
        "broadcast": ({"root": root}, elsewhere),
        "gather": ({"gather_axis": 1, "root": root}, False),
        "reduce": ({"reduction": "max", "root": root}, False),
        "reduce_scatter": ({"reduction": "sum", "scatter_axis": 0}, False),
        "scatter": ({"scatter_axis": 0, "root": root}, elsewhere),
        "shift": ({"shift_axis": axes[0], "offset": 1, "rotate": True}, False),
    }


def axes_of(grid):
    """All axes together, and each by itself."""
    return [[*range(grid.ndim)], *([axis] for axis in range(grid.ndim))]


def whole_numbers(shape, dtype, rank, seed=0):
    """Sums and maxima of them are the same in any order: no zero is negative."""
    return np.round(sample(shape, dtype, rank + 100 * seed)) + 0


def operations(grid):
    """Every operation, called and started, with arrays in the arena and outside it."""
    me, count = grid.rank, 0
    for axes in axes_of(grid):
        for (name, (args, _)), shape in ((call, shape) for call in calls_of(grid, axes).items() for shape in _SHAPES):
            dtype = "int32" if name == "shift" else "float64"
            arrays = [whole_numbers(shape, dtype, rank).astype(dtype) for rank in range(grid.size)]
            wanted = expected(name, arrays, grid.shape, axes, **args)[me]
            call, x = getattr(sg, name), arrays[me]
            shared = grid.allocate(shape, x.dtype)
            shared[...] = x
            results = [call(x, grid, axes, **args), call(shared, grid, axes, **args)]
            results.append(call.start(x, grid, axes, **args).wait())
            for result in results:
                check(same(result, wanted), name, shape, axes, me)
            count += len(results)
    several = [sg.all_reduce.start(np.full(5000, 1.0 + n), grid, [0]) for n in range(4)]
    for n, request in enumerate(several):
        check((request.wait() == (1.0 + n) * grid.shape[0]).all(), "several started", n)
    return count


def plans(grid):
    """Plans of every operation: run, started, and run in a compiled loop, on other cells each time."""
    me, count = grid.rank, 0
    for axes in axes_of(grid):
        for (name, (args, ignored)), shape in (
            (call, shape) for call in calls_of(grid, axes).items() for shape in _SHAPES
        ):
            steps = [[whole_numbers(shape, "float64", rank, seed) for rank in range(grid.size)] for seed in range(4)]
            wanted = [expected(name, arrays, grid.shape, axes, **args)[me] for arrays in steps]
            inputs = np.array([arrays[me] for arrays in steps])
            described = (None, None) if ignored else (shape, "float64")
            with getattr(sg, name).plan(grid, *described, axes, **args) as plan:
                results = [plan.run(x) for x in inputs] + [plan.start(x).wait() for x in inputs]
                out = np.empty(shape if wanted[0] is None else wanted[0].shape)
                looped = np.empty((len(inputs), *out.shape))
                in_loop(plan, inputs, np.empty(shape), out, looped)
            results += [None] * len(inputs) if wanted[0] is None else list(looped)
            for number, result in enumerate(results):
                check(same(result, wanted[number % len(inputs)]), name, shape, axes, me, number)
            count += len(results)
    return count


def messages(grid):
    """Many between the first and the last process, by source and from any; some larger than a frame."""
    everybody = [*range(len(grid.shape))]
    last = [size - 1 for size in grid.shape]
    for number in range(300):
        x = np.full(8 if number % 3 else 5000, number, np.uint16)
        for sender, receiver, to in ((0, grid.size - 1, last), (grid.size - 1, 0, [0] * len(last))):
            if grid.rank == sender:
                sg.send(x, grid, everybody, to)
            elif grid.rank == receiver:
                source = None if number % 2 else ([0] * len(last) if sender == 0 else last)
                check((sg.recv(grid, everybody, source) == number).all(), "message", number)
    return 600


def halos(grid):
    """Updates by all boundary rules, called, started, and in a compiled loop."""
    names = [[axis] for axis in range(len(grid.shape))] + [[]] * (2 - len(grid.shape))
    sizes = [1, 2] * len(grid.shape)
    count = 0
    for shape in ((11, 14), (300, 40)):
        whole = np.arange(shape[0] * shape[1], dtype=float).reshape(shape) + 1
        layout = sg.Sharding(grid, names, halo_sizes=sizes)
        pad = [(1, 2)] * len(grid.shape) + [(0, 0)] * (2 - len(grid.shape))
        for mode, options in (("wrap", {"periodic": True}), ("edge", {"boundary": "edge"}),
                              ("symmetric", {"boundary": "symmetric"})):  # fmt: skip
            u = sg.ShardedArray.from_global(whole, layout, grid)
            place = tuple(slice(s.start, s.stop + low + high) for s, (low, high) in zip(u.global_slices, pad))
            with sg.HaloExchange(grid, layout, shape, "float64", **options) as plan:
                for step in range(3):
                    u.core[...] = whole[u.global_slices] + step
                    plan.update(u.local)
                    check(np.array_equal(u.local, np.pad(whole + step, pad, mode)[place]), "halo", mode, shape, step)
                u.core[...] = whole[u.global_slices] * 2
                plan.start(u.local)
                plan.wait()
                check(np.array_equal(u.local, np.pad(whole * 2, pad, mode)[place]), "started halo", mode, shape)
                u.core[...] = whole[u.global_slices] - 5
                updates_free(plan, u.local, 4)
                check(np.array_equal(u.local, np.pad(whole - 5, pad, mode)[place]), "compiled loop", mode, shape)
                count += 5
    return count


def reshardings(grid):
    """Between layouts of one grid, by all strategies; some also by bound plans, in compiled loops too."""
    axes = [*range(len(grid.shape))]
    splits = [[axes, []], [[], axes], [[], []], [[0], []], [[], [axes[-1]]], [[axes[-1]], axes[:-1]]]
    layouts = [sg.Sharding(grid, split) for split in splits]
    layouts.append(sg.Sharding(grid, [[0], []], halo_sizes=[1, 1]))
    count = 0
    for shape in ((13, 17), (240, 150)):
        whole = np.random.default_rng(3).random(shape)
        arrays = [sg.ShardedArray.from_global(whole, layout, grid) for layout in layouts]
        for n, (source, target) in enumerate((s, t) for s in arrays for t in arrays if s is not t):
            moved = source.reshard(target.sharding, strategy=("direct", "basis", "auto")[n % 3])
            about = "resharding", shape, str(source.sharding), str(target.sharding)
            check(np.array_equal(moved.core, target.core), *about)
            count += 1
            if n % 4 == 0:
                count += bound_runs(grid, source, target)
        check(np.array_equal(arrays[0].to_global(), whole), "to_global", shape)
    return count


def bound_runs(grid, source, target):
    """Runs of a bound plan from one array to another one of the same cells, by Python and in a compiled loop."""
    plan = sg.plan_reshard(source.sharding, target.sharding, source.shape, "float64")
    bound = plan.bind(grid)
    inputs = np.array([source.local + step for step in range(4)])
    results = [bound.run(x) for x in inputs]
    looped = np.empty((len(inputs), *target.local.shape))
    in_loop(bound, inputs, np.empty(source.local.shape), np.empty(target.local.shape), looped)
    halos = [(n - m) // 2 for n, m in zip(target.local.shape, target.core.shape)]
    inner = tuple(slice(low, low + m) for low, m in zip(halos, target.core.shape))
    for step, local in enumerate([*results, *looped]):
        check(np.array_equal(local[inner], target.core + step % 4), "bound", step, str(plan))
    return 2 * len(inputs)


def arrays(grid):
    """An array program: expressions, reductions, sums that are the same everywhere, a product of matrices."""
    axes = [*range(len(grid.shape))]
    rng = np.random.default_rng(7)
    a, b = rng.random((37, 24)), rng.random((24, 31))
    x = sg.ShardedArray.from_global(a, sg.Sharding(grid, [axes[:1], axes[1:]]), grid)
    y = sg.ShardedArray.from_global(b, sg.Sharding(grid, [axes[1:], axes[:1]]), grid)
    close = np.testing.assert_allclose
    close(((x - x.mean(axis=0)) / x.std(axis=0)).to_global(), (a - a.mean(0)) / a.std(0), rtol=1e-9)
    close((x @ y).to_global(), a @ b, rtol=1e-12)
    close(np.sort(x, axis=1).to_global(), np.sort(a, 1))
    check(int(np.argmax(x)) == int(np.argmax(a)), "argmax")
    check(sg.sum(x, reproducible=True) == sg.sum(x.reshard(sg.Sharding(grid, [[], axes])), reproducible=True), "sums")
    return 5


def main():
    n = sg.init_grid((-1,)).size
    grid = sg.init_grid((2, n // 2) if n % 2 == 0 else (n,))
    parts = (operations, plans, messages, halos, reshardings, arrays)
    for part in [part for part in parts if part.__name__ in (sys.argv[1:] or [part.__name__])]:
        began = time.perf_counter()
        count = part(grid)
        if grid.rank == 0:
            print(f"{part.__name__}: {count} right, {time.perf_counter() - began:.1f} s", flush=True)
    hosts = sg.all_gather(
        np.frombuffer(socket.gethostname().ljust(16).encode(), np.uint8), grid, [*range(grid.ndim)], 0
    )
    near = sg.all_reduce(len(grid.group(tuple(range(grid.ndim))).near), grid, [*range(grid.ndim)], "max")
    if grid.rank == 0:
        print(f"ranks on {hosts.tobytes().decode().split()}, memory of {int(near)} others in sight")


if __name__ == "__main__":
    main()
