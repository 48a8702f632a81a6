"""Every example of the dialect's documents that concerns running programs, with its numbers.

"The operation document" is the reference of the operations one by one, "the overview" the page on groups, in-group
devices and the execution model.  Where a drawing contradicts its text, the test says which of the two it follows.
"""

import math
from itertools import product

import numpy as np
import pytest

import spmd_grid as sg

# The four 2x2 blocks that most drawings of the operation document start from, by device of a 2x2 grid.
BLOCKS = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]], [[13, 14], [15, 16]]]
ROWS = [[[1, 2, 5, 6], [3, 4, 7, 8]], [[9, 10, 13, 14], [11, 12, 15, 16]]]


def run(spmd, op, grid_shape, inputs, *args, dtype="i1", **kwargs):
    """The operation on one input per device (None: the device has none); the results as lists."""

    def body():
        grid = sg.init_grid(grid_shape)
        x = inputs[grid.rank]
        result = op(None if x is None else np.array(x, dtype), grid, *args, **kwargs)
        return None if result is None else result.tolist()

    return spmd(math.prod(grid_shape), body)


# -- the overview ------------------------------------------------------------------------------------------------


def test_device_groups(spmd):
    """Overview, "Device Groups", first example: grid 2x3x4x5, axes [0, 1]: a group per (k, m), of all (i, j, k, m)."""

    def body():
        grid = sg.init_grid((2, 3, 4, 5))
        return sg.all_gather(np.array([grid.coords]), grid, [0, 1], gather_axis=0).tolist()

    results = spmd(120, body)
    for (_, _, k, m), members in zip(np.ndindex(2, 3, 4, 5), results, strict=True):
        assert members == [[i, j, k, m] for i, j in product(range(2), range(3))]


def test_order_in_groups(spmd):
    """Overview, "Device Groups", second example: axes [3, 1]: (i, 1, k, 0) before (i, 0, k, 1) and (i, 2, k, 0)."""

    def body():
        grid = sg.init_grid((2, 3, 4, 5))
        return sg.all_gather(np.array([grid.coords]), grid, [3, 1], gather_axis=0).tolist()

    for (i, _, k, _), members in zip(np.ndindex(2, 3, 4, 5), spmd(120, body), strict=True):
        assert members == [[i, j, k, m] for m, j in product(range(5), range(3))]
        assert members.index([i, 1, k, 0]) < min(members.index([i, 0, k, 1]), members.index([i, 2, k, 0]))


def test_in_group_devices(spmd):
    """Overview, "In-group Devices": axes [0, 2] of a 3-d grid: the device (i, j) of group g is (i, g, j)."""

    def body():
        grid = sg.init_grid((2, 2, 3))
        return [sg.broadcast(np.array(grid.coords), grid, [0, 2], root=(i, j)).tolist() for i in (0, 1) for j in (0, 2)]

    for (_, g, _), roots in zip(np.ndindex(2, 2, 3), spmd(12, body), strict=True):
        assert roots == [[i, g, j] for i in (0, 1) for j in (0, 2)]


def test_all_processes_are_in_sync_and_removal_is_everywhere(spmd):
    """Overview, "Purity and Execution Model": left out on every process, a collective leaves the others as they are."""

    def body(also):
        grid = sg.init_grid((3,))
        if also:
            sg.all_reduce(np.ones(2), grid, [0])
        return sg.all_gather(np.array([grid.rank]), grid, [0], 0).tolist()

    assert spmd(3, body, True) == spmd(3, body, False) == [[0, 1, 2]] * 3


# -- the operation document ----------------------------------------------------------------------------------------


def test_all_gather(spmd):
    """Operation document, all_gather, example: 2x2 blocks along grid axis 1 and tensor axis 1."""
    assert run(spmd, sg.all_gather, (2, 2), BLOCKS, [1], gather_axis=1) == [ROWS[0], ROWS[0], ROWS[1], ROWS[1]]


@pytest.mark.parametrize("op, args", [(sg.all_reduce, {}), (sg.reduce, {"root": [2, 3]})])
def test_all_reduce_and_reduce_promote(spmd, op, args):
    """Operation document, all_reduce and reduce: max of 3x4 f32 over axes [1, 0] into f64; reduce at root [2, 3].

    The root lists coordinates in the order of the axes [1, 0], so it is the device (3, 2).
    """

    def body():
        grid = sg.init_grid((4, 3))
        x = np.full((3, 4), np.float32(grid.rank) / 3) + np.arange(12, dtype="f4").reshape(3, 4)
        return x, op(x, grid, [1, 0], "max", dtype="float64", **args)

    inputs, results = zip(*spmd(12, body))
    holders = [device for device, result in enumerate(results) if result is not None]
    assert holders == ([3 * 3 + 2] if args else list(range(12)))
    for device in holders:
        assert results[device].dtype == "float64" and results[device].shape == (3, 4)
        assert np.array_equal(results[device], np.maximum.reduce([x.astype("f8") for x in inputs]))


def test_conversion_comes_before_the_reduction(spmd):
    """Operation document, all_reduce: "converted to the result element type before performing the reduction"."""
    assert run(spmd, sg.all_reduce, (3,), [[100], [100], [100]], [0], "sum", dtype="i1") == [[44]] * 3

    def body():
        return int(sg.all_reduce(np.int8(100), sg.init_grid((3,)), [0], "sum", dtype="int16"))

    assert spmd(3, body) == [300] * 3


def test_all_slice(spmd):
    """Operation document, all_slice, example: the inverse of all_gather's."""
    assert run(spmd, sg.all_slice, (2, 2), [ROWS[0], ROWS[0], ROWS[1], ROWS[1]], [1], slice_axis=1) == BLOCKS


def test_all_slice_of_unequal_inputs(spmd):
    """Operation document, all_slice: inputs need not be equal, each process slices its own; nobody communicates."""

    def body():
        grid = sg.init_grid((2, 2))
        if grid.rank == 0:
            return None
        return sg.all_slice(np.arange(4) + 10 * grid.rank, grid, [1], slice_axis=0).tolist()

    assert spmd(4, body) == [None, [12, 13], [20, 21], [32, 33]]


def test_all_to_all(spmd):
    """Operation document, all_to_all, example: three devices, split and concatenated along tensor axis 0."""
    inputs = [[[10 * d + 1, 10 * d + 2], [10 * d + 3, 10 * d + 4], [10 * d + 5, 10 * d + 6]] for d in (1, 2, 3)]
    assert run(spmd, sg.all_to_all, (3,), inputs, [0], split_axis=0, concat_axis=0) == [
        [[11, 12], [21, 22], [31, 32]],
        [[13, 14], [23, 24], [33, 34]],
        [[15, 16], [25, 26], [35, 36]],
    ]


def test_broadcast(spmd):
    """Operation document, broadcast, example: along grid axis 0 from root [0]; the others have nothing."""
    results = run(spmd, sg.broadcast, (2, 2), [[1, 2], [3, 4], None, None], [0], root=[0])
    assert results == [[1, 2], [3, 4], [1, 2], [3, 4]]


def test_gather(spmd):
    """Operation document, gather, example: root [1] along grid axis 1; (0, 0) and (1, 0) have no result."""
    results = run(spmd, sg.gather, (2, 2), BLOCKS, [1], gather_axis=1, root=[1])
    assert results == [None, ROWS[0], None, ROWS[1]]


@pytest.mark.parametrize(
    "reduction, results",
    [
        ("sum", [[[6, 8]], [[10, 12]], [[22, 24]], [[26, 28]]]),
        ("max", [[[5, 6]], [[7, 8]], [[13, 14]], [[15, 16]]]),
    ],
)
def test_reduce_scatter(spmd, reduction, results):
    """Operation document, reduce_scatter, example.

    Its text says kind max and result 1x4 of 3x4 inputs, its drawing shows sums of 2x2 blocks.  Both kinds are right
    on the drawing's inputs; the drawn numbers belong to sum (and 2x2 blocks give 1x2).
    """
    assert run(spmd, sg.reduce_scatter, (2, 2), BLOCKS, [1], reduction, scatter_axis=0) == results
    assert run(spmd, sg.reduce_scatter, (2, 2), BLOCKS, [1], reduction, scatter_dim=0) == results


def test_reduce_scatter_as_typed(spmd):
    """Operation document, reduce_scatter, the example's types: 3x4 f32 into f64, cut along dimension 0 on 2 devices.

    The text says 1x4, which divides nothing: the block rule gives 2 rows and 1 row.
    """

    def body():
        grid = sg.init_grid((2,))
        result = sg.reduce_scatter(np.full((3, 4), grid.rank, "f4"), grid, [0], "max", scatter_axis=0, dtype="f8")
        return result.shape, result.dtype.str, result.tolist()

    assert spmd(2, body) == [((n, 4), "<f8", [[1.0] * 4] * n) for n in (2, 1)]


def test_scatter(spmd):
    """Operation document, scatter, example: along grid axis 0 from root [1]."""
    inputs = [None, None, [[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    results = run(spmd, sg.scatter, (2, 2), inputs, [0], scatter_axis=0, root=[1])
    assert results == [[[1, 2]], [[5, 6]], [[3, 4]], [[7, 8]]]


def test_send_and_recv(spmd):
    """Operation document, send and recv: "from one device to another within a device group", device by its axes.

    The document's summary of recv says "Send"; it receives.
    """

    def body():
        grid = sg.init_grid((2, 3))
        if grid.coords[1] == 0:
            sg.send(np.array([grid.rank]), grid, [1, 0], destination=[2, 1 - grid.coords[0]])
        return int(sg.recv(grid, [1, 0], source=[0, 1 - grid.coords[0]])[0]) if grid.coords[1] == 2 else None

    assert spmd(6, body) == [None, None, 3, None, None, 0]


@pytest.mark.parametrize("offset", [2, -2, 6])
def test_shift(spmd, offset):
    """Operation document, shift, example: rotate by 2 on an axis of 4, where left and right are the same."""
    inputs = [[n, n] for n in range(1, 9)]
    results = run(spmd, sg.shift, (2, 4), inputs, [1], shift_axis=1, offset=offset, rotate=True)
    assert results == [[n, n] for n in (3, 4, 1, 2, 7, 8, 5, 6)]


def test_shift_direction(spmd):
    """The example above cannot tell left from right: here data goes from coordinate i to i + offset."""
    inputs = [[n] for n in range(1, 9)]
    ring = run(spmd, sg.shift, (2, 4), inputs, [1], shift_axis=1, offset=1, rotate=True)
    assert ring == [[n] for n in (4, 1, 2, 3, 8, 5, 6, 7)]
    line = run(spmd, sg.shift, (2, 4), inputs, [1], shift_axis=1, offset=1)
    assert line == [None, [1], [2], [3], None, [5], [6], [7]]


def test_neighbors_linear_indices():
    """Operation document, neighbors_linear_indices: (1, 2, 3) on 10x20x30 along axis 1: (1, 1, 3), (1, 3, 3).

    The example binds both results to one name, and writes @grid for @grid0; it means (down, up) = (633, 693).
    """
    grid = sg.Grid((10, 20, 30))
    assert grid.neighbors_linear_indices((1, 2, 3), split_axes=[1]) == (633, 693)
    assert [grid.multi_index(n) for n in (633, 693)] == [(1, 1, 3), (1, 3, 3)]
    assert (
        grid.neighbors_linear_indices((1, 0, 3), [1])[0] < 0 and grid.neighbors_linear_indices((1, 19, 3), [1])[1] < 0
    )


def test_sharded_dims_offsets():
    """Operation document, sharding: 32x32x32 with offsets [0, 24, 32, 0, 20, 32].

    The text gives the "second device" 8x12x32: that is the device (1, 1) of a 2x2 grid.
    """
    sharding = sg.Sharding(sg.Grid((2, 2)), [[0], [1]], sharded_dims_offsets=[0, 24, 32, 0, 20, 32])
    shapes = {(0, 0): (24, 20, 32), (0, 1): (24, 12, 32), (1, 0): (8, 20, 32), (1, 1): (8, 12, 32)}
    for device, shape in shapes.items():
        assert sharding.shard_shape((32, 32, 32), device) == shape


def test_sharding_examples():
    """Operation document, sharding, the list of examples: replicated, sharded, with halos, with offsets."""
    grid, line = sg.Grid((2, 2, 4)), sg.Grid((4,))
    assert sg.Sharding(grid, [[]]).shard_shape((4, 8), (1, 1, 3)) == (4, 8)
    assert sg.Sharding(grid, [[0]]).shard_shape((4, 8), (1, 1, 3)) == (2, 8)
    assert sg.Sharding(grid, [[0]], halo_sizes=[1, 2]).shard_shape((4, 8), (1, 1, 3)) == (5, 8)
    offsets = sg.Sharding(line, [[], [0]], sharded_dims_offsets=[0, 2, 5, 9, 14])
    assert [offsets.shard_shape((4, 14), (d,)) for d in range(4)] == [(4, 2), (4, 3), (4, 4), (4, 5)]


@pytest.mark.parametrize(
    "split_axes, halo_sizes, shape",
    [([[0]], [1, 2], (4 // 2 + 1 + 2, 8)), ([[0], [1]], [1, 2, 2, 3], (4 // 2 + 1 + 2, 8 // 2 + 2 + 3))],
)
def test_halo_sizes(spmd, split_axes, halo_sizes, shape):
    """Operation document, sharding and update_halo: [1, 2], and [1, 2, 2, 3] for two sharded dimensions.

    update_halo's text speaks of source and destination halo sizes, attributes of an older version: there is one
    list, and the local array has its room already.
    """
    whole = np.arange(1, 33).reshape(4, 8)

    def body():
        grid = sg.init_grid((2, 2))
        sharding = sg.Sharding(grid, split_axes, halo_sizes=halo_sizes)
        local = np.zeros(sharding.shard_shape(whole.shape, grid.coords), int)
        core = sharding.shard_slices(whole.shape, grid.coords)
        pads = [*zip(halo_sizes[::2], halo_sizes[1::2]), (0, 0)][:2]
        inner = tuple(slice(low, n - high) for (low, high), n in zip(pads, local.shape))
        local[inner] = whole[core]
        sg.update_halo(local, grid, split_axes, halo_sizes)
        wide = np.pad(whole, pads)
        here = tuple(slice(part.start, part.start + n) for part, n in zip(core, local.shape))
        return local.shape, np.array_equal(local, wide[here])

    assert spmd(4, body) == [(shape, True)] * 4
