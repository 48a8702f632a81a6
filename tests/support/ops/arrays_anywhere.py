"""Every operation on arrays that lie anywhere: in the node's memory, elsewhere, with strides."""

import numpy as np

import spmd_grid as sg
from spmd_grid.ops.calls.shape_rules import cut_box

KINDS = ["arena", "plain", "every other column", "every other column of the arena", "backwards"]


def placed(grid, shape, kind, dtype="f8"):
    """An empty array of ``shape`` that lies as ``kind`` says."""
    wide = shape[0], 2 * shape[1]
    if kind == "arena":
        return grid.allocate(shape, dtype)
    if kind == "plain":
        return np.empty(shape, dtype)
    if kind == "every other column":
        return np.empty(wide, dtype)[:, ::2]
    if kind == "backwards":
        return np.empty(shape, dtype)[::-1]
    return grid.allocate(wide, dtype)[:, ::2]


def folded(parts, per_node):
    """The sum of the members of a node first, then of the nodes."""
    sums = [sum(parts[i + 1 : i + per_node], parts[i]) for i in range(0, len(parts), per_node)]
    return sum(sums[1:], sums[0])


def check_all(grid, n, me, parts, kind, out_kind, per_node=None):
    def out(shape):
        return None if out_kind is None else placed(grid, shape, out_kind)

    def check(result, expected):
        assert np.array_equal(result, expected), (kind, out_kind, parts[0].shape)

    shape, total = parts[0].shape, folded(parts, per_node or n)
    x = placed(grid, shape, kind if me != 0 or kind != "mixed" else "plain")
    x[...] = parts[me]
    check(sg.all_reduce(x, grid, [0], "sum", out=out(shape)), total)
    for axis in (0, 1):
        whole = np.concatenate(list(parts), axis)
        check(sg.all_gather(x, grid, [0], axis, out=out(whole.shape)), whole)
        block = cut_box(shape, axis, (n,), me)
        check(sg.reduce_scatter(x, grid, [0], "sum", axis, out=out(block.shape)), total[block.slices()])
        pieces = np.concatenate([part[block.slices()] for part in parts], 1 - axis)
        check(sg.all_to_all(x, grid, [0], axis, 1 - axis, out=out(pieces.shape)), pieces)
        check(sg.scatter(x, grid, [0], axis, [n - 1], out=out(block.shape)), parts[n - 1][block.slices()])
    for root in {0, n - 1}:
        results = sg.reduce(x, grid, [0], "sum", [root], out=out(shape)), sg.gather(x, grid, [0], 0, [root])
        for result, expected in zip(results, (total, np.concatenate(list(parts), 0)), strict=True):
            assert (result is None) == (me != root)
            if me == root:
                check(result, expected)
    check(sg.broadcast(x, grid, [0], [n - 1], out=out(shape)), parts[n - 1])
    check(sg.shift(x, grid, [0], 0, 1, rotate=True, out=out(shape)), parts[(me - 1) % n])
    check(x, parts[me])
