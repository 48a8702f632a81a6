"""Cells written by the process that has read them: to every core, each block by one process, and to no freed memory."""

import numpy as np
import pytest
from support.storage.shared import LAYOUTS, values

import spmd_grid as sg
from spmd_grid.exchange.paths import forced_path
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.storage.ranges.blocks import Blocks
from spmd_grid.storage.ranges.cores import cores_of_all, kept_while_written, own_core
from spmd_grid.storage.ranges.deal import deal_without_rounds, touched
from spmd_grid.storage.team import Team


def test_each_process_writes_to_all_cores(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        team, want = Team("test", [grid]), values((9, 7), "i4")
        for name, (axes, options) in LAYOUTS.items():
            a = sg.zeros(want.shape, sg.Sharding(grid, axes, **options), grid, dtype="i4")
            cores = cores_of_all(own_core(a, a.layout), a.layout, team)
            assert (cores is None) == (name == "partial" or not team.group.shares_memory)
            for box, cells in cores or ():
                rows = np.arange(box.starts[0], box.stops[0])
                mine = rows % team.size == team.rank
                cells[mine] = want[box.slices()][mine]
            team.agree()
            if cores is not None:
                np.testing.assert_array_equal(a.core, want[a.layout.core_box(grid.coords).slices()])
                assert a.local.sum() == a.core.sum()  # halos are as they were

    spmd(6, body)


def test_no_cells_and_no_dimensions(spmd):
    def body():
        grid = sg.init_grid((3,))
        team = Team("test", [grid])
        for shape, axes in (((0, 4), [[0]]), ((2, 0), [[0]]), ((1, 4), [[0]]), ((1,), [])):
            a = sg.zeros(shape, sg.Sharding(grid, axes), grid)
            cores = cores_of_all(own_core(a, a.layout), a.layout, team)
            assert [cells.shape for _, cells in cores or ()] == [box.shape for box, _ in cores or ()]
            team.agree()

    spmd(3, body)


@pytest.mark.parametrize("path", ["message", "inline"])
def test_forced_messages_are_sent(spmd, path):
    def body():
        grid = sg.init_grid((2,))
        a = sg.zeros((4,), sg.Sharding(grid, [[0]]), grid)
        return cores_of_all(own_core(a, a.layout), a.layout, Team("test", [grid])) is None

    with forced_path(path):
        assert all(spmd(2, body))


def test_memory_to_which_others_may_write_is_not_given_again(spmd):
    """A process that is interrupted leaves without the others; one that raises an error does so with all."""

    def body():
        grid = sg.init_grid((2,))
        team = Team("test", [grid])
        for error, is_kept in ((KeyboardInterrupt(), True), (sg.DamagedError("test"), False)):
            core = grid.allocate((1 << 17,), "u1")
            address = core.ctypes.data
            with pytest.raises(type(error)), kept_while_written(core, team):
                raise error
            error.__traceback__ = None
            del core
            again = [grid.allocate((1 << 17,), "u1") for _ in range(9)]
            if is_kept:
                assert address not in [each.ctypes.data for each in again]
        return len(grid.kept["arrays to which other processes may still write"])

    assert spmd(2, body) == [1, 1]


@pytest.mark.parametrize("region", [Box((0, 0), (9, 7)), Box((2, 1), (8, 5)), Box((3, 2), (3, 5))])
@pytest.mark.parametrize("most_bytes", [4, 24, 60])
def test_each_block_is_read_once(region, most_bytes):
    blocks, order = Blocks((9, 7), 4, most_bytes), (3, 0, 5, 1, 4, 2)
    grid = Grid((2, 3), ranks=order)
    for axes, options in LAYOUTS.values():
        layout = Layout(sg.Sharding(grid, axes, **options), region.shape)
        parts = [deal_without_rounds(blocks, region, layout, range(6), rank) for rank in range(6)]
        assert sorted(block for part in parts for block in part) == [block for block, _ in touched(blocks, region)]
        if not layout.sharding.sharded_dims:
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
