"""Programs of numpy's functions that have every kind of step, layout and constant in their texts."""

import numpy as np

import spmd_grid as sg


def every_kind_of_step(x, y):
    a = np.sort(x, axis=0) + np.cumsum(x, axis=0) + np.maximum.accumulate(x, axis=1)[:, ::-1]
    b = np.argmax(x, axis=0) + np.mean(x.astype("f4"), axis=0) + np.std(x, axis=0)
    c = np.broadcast_to(b, (3, 5)) + np.linspace(0, 1, 15).reshape(3, 5)
    d = np.concatenate([x, x[2:4], np.ones((1, 5))])[1:, None, 3]
    e = np.fft.fft(x[:, 0]).real + np.median(x) + np.sort(np.ravel(y))[:1]
    z = x * 1.0
    z[1:6:2, ::-2] = y[:3, :3]
    return a, b, c, d, e, z, np.einsum("ij,ik,lj->kl", x, x, x), (x @ y).T, z.reshape(5, 7).T, x[1:] - 2 * x[:-1]


def part_of_steps(args="local"):
    """Slices, scans, reshapes, broadcasts, plain arrays, sums that are owed, on blocks of several extents."""
    grid = sg.Grid((2, 2))
    program = sg.trace(every_kind_of_step, sg.ArraySpec((7, 5)), sg.ArraySpec((5, 4)))
    return sg.partition(program, grid, [sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[], [0]])], args=args)


def every_kind_of_list(x, i):
    a = x[[3, 1, -1, 3]]
    b = x[1:6:2, [2, 0]]
    c = x[2, [True, False, False, True, True]] + x[-1, ::-1][[4, 2, 0]]
    y = x + 1
    y[[0, 5]] = 7
    y[::2, [1, 3]] = x[:4, :2]
    z = x * 2
    np.put_along_axis(z, i[:, None], 9.0, 1)
    return a, b, c, y, z, x[i % 7, i % 5], x[i % 7, 2]


def part_of_lists():
    """Lists of indices, read and written."""
    grid = sg.Grid((2, 2))
    program = sg.trace(every_kind_of_list, sg.ArraySpec((7, 5)), sg.ArraySpec((7,), "i8"))
    return sg.partition(program, grid, [sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[0]])])


def part_of_layouts(args="local"):
    """Offsets, halos, both, balanced blocks, devices in another order, axes that are open, sums that stay partial."""
    grid = sg.Grid((2, 3), ranks=[5, 4, 3, 2, 1, 0])
    shardings = [
        sg.Sharding(grid, [[0]], sharded_dims_offsets=[0, 3, 9]),
        sg.Sharding(grid, [[0, 1]], sharded_dims_offsets=[0, 1, 2, 4, 6, 8, 9]),
        sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 0, 2]),
        sg.Sharding(grid, [[1]], halo_sizes=[1, 1], sharded_dims_offsets=[0, 2, 5, 9]),
        sg.Sharding(grid, [[1, 0]], blocks="balanced"),
    ]

    def all_of(*arrays):
        opened = sg.constrain(arrays[0], sg.Sharding(grid, [[0, sg.OPEN], [sg.OPEN]]), required=False)
        return opened + arrays[1], arrays[2] * arrays[3], arrays[4] - arrays[0], np.sum(arrays[0], axis=0)

    out = [
        shardings[2],
        shardings[1],
        sg.Sharding(grid, [[], [0]]),
        sg.Sharding(grid, [], partial_axes=[1], partial_kind="max"),
    ]
    return sg.partition(sg.trace(all_of, *[sg.ArraySpec((9, 6))] * 5), grid, shardings, out, args=args)


def of_dtype(x):
    """Constants and operations of an element type."""
    one = np.ones((), x.dtype)[()]
    if x.dtype.kind in "SUVMm":
        return np.concatenate([x[1:], np.zeros(3, x.dtype)]), np.where(np.arange(8) > 3, x, one)
    total = np.sum(x) if x.dtype.kind == "c" else np.max(x)
    return np.add(x, one), np.add(x, np.arange(8).astype(x.dtype)), total


def part_of_dtypes(dtype):
    """Constants and operations of an element type."""
    grid = sg.Grid((2,))
    return sg.partition(sg.trace(of_dtype, sg.ArraySpec((8,), dtype)), grid, sg.Sharding(grid, [[0]]))


def part_of_manual():
    """A function of the user's on blocks."""
    grid = sg.Grid((2,))
    sharding = sg.Sharding(grid, [[0]])
    body = sg.manual(lambda block: block + 1, [sharding], sharding, [0])
    return sg.partition(sg.trace(body, sg.ArraySpec((4,))), grid, sharding)


def options(x):
    """Plain arguments of many kinds."""
    return (
        np.nan_to_num(x, nan=np.inf, posinf=1e-5, neginf=-1.0),
        np.clip(x, -1e300, 1e-300),
        np.sum(x, axis=(0, 1), keepdims=True, dtype="f4"),
        np.var(x, ddof=1, axis=1),
        np.isclose(x, x + 1, rtol=1e-05, atol=1e-08, equal_nan=True),
        np.quantile(x, 0.25, axis=0, method="lower"),
        np.pad(x, ((1, 0), (2, 3)), constant_values=7),
    )


def part_of_options():
    """Plain arguments of many kinds."""
    grid = sg.Grid((2,))
    return sg.partition(sg.trace(options, sg.ArraySpec((6, 4))), grid, sg.Sharding(grid, [[0]]))
