"""Reshardings into results that are written past the caches: all boxes together decide, however small each one is."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.copy.tables import ALWAYS, BY_SIZE, STREAM_FROM
from spmd_grid.kernels.protocol import slots as at

ROWS, COLUMNS = [[0], []], [[], [0]]


def placed(grid, array, where):
    """An array like ``array``, in the node's memory, in memory of its own, or there with odd offsets and strides."""
    if where == "arena":
        made = grid.allocate(array.shape, array.dtype)
    elif where == "plain":
        made = np.empty_like(array)
    else:
        made = np.ones((array.shape[0] + 1, array.shape[1] + 3), array.dtype)[1:, 2:-1]
    made[...] = array
    return made


@pytest.mark.parametrize(
    ("shape", "dtype", "n"),
    [((1023, 4097), "f8", 2), ((2049, 3071), "i4", 2), ((1025, 1601), "c16", 3), ((3001, 9001), "u1", 3)],
    ids=str,
)
@pytest.mark.parametrize("cuts", [(ROWS, COLUMNS), (COLUMNS, ROWS)], ids=["columns", "rows"])
def test_no_cell_is_lost(spmd, shape, dtype, n, cuts):
    """Runs of odd lengths that begin and end on lines that they share with others."""

    def body():
        grid = sg.init_grid((n,))
        before, after = (sg.Sharding(grid, cut) for cut in cuts)
        plan = sg.plan_reshard(before, after, shape, dtype)
        whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        own, there = (whole[layout.shard_slices(shape, grid.coords)] for layout in (before, after))
        for x_is, out_is in (("arena", "arena"), ("plain", "plain"), ("arena", "odd"), ("odd", "arena")):
            x, out = placed(grid, own, x_is), placed(grid, np.zeros_like(there), out_is)
            frame = None if out.base is None or out_is != "odd" else out.base.copy()
            for turn in range(2):
                x[...] = own + np.array(turn, dtype)
                assert plan.run(x, grid, out) is out
                assert np.array_equal(out, there + np.array(turn, dtype)), (x_is, out_is, turn)
            if frame is not None:
                assert np.array_equal(out.base[0], frame[0]) and np.array_equal(out.base[:, :2], frame[:, :2])

    spmd(n, body)


def test_all_boxes_count(spmd):
    """Two boxes that the caches hold, and do not hold together."""

    def body():
        grid = sg.init_grid((2,))
        me, other = grid.rank, 1 - grid.rank
        found = []
        for rows in (STREAM_FROM // 16384, STREAM_FROM // 16384 - 1):
            box = Cells((0, 0), (1, 1), (rows, 1024))
            below = Cells((rows, 0), (1, 1), (rows, 1024))
            shape = (2 * rows, 1024)
            takes = [Taken(me, box, box, shape), Taken(other, below, box, shape)]
            takes.sort(key=lambda take: take.member)
            channel = Channel(grid.group((0,)), shape, [np.dtype("f8")], [(other, box)], takes)
            x, out = grid.allocate(shape, "f8"), grid.allocate(shape, "f8")
            x[...] = np.arange(x.size).reshape(shape) + me
            assert channel.run(at.UPDATE, channel.call([x], [out])) == at.FINE
            assert np.array_equal(out[:rows], x[:rows]) and np.array_equal(out[rows:], x[:rows] - me + other)
            found.append(int(channel._state.words[at.LANDS_STREAMING]))
            channel.retire()
        return found

    for found in spmd(2, body):
        assert found == [ALWAYS, BY_SIZE]
