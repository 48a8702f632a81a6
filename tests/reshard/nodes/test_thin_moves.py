"""Reshardings in which a process keeps nearly all of its cells: what they take does not grow with these."""

from types import SimpleNamespace

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.agreement.relay import SLOT_BYTES, Rings
from spmd_grid.grid.device_grid import Grid
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.reshard.executor.exchanges.local_boxes import LocalBoxes
from spmd_grid.reshard.executor.exchanges.relayed_boxes import RelayedBoxes


class Meetings:
    """Meetings of process 0 or 1, which gives, of which the other one has said what it says in each."""

    def __init__(self, rank, said):
        self._rings, self._said, self.says = Rings(0, np.zeros(2, np.int64), rank), iter(said), []

    def next_number(self):
        return 0

    def most(self, value):
        self.says.append(value)
        return max(value, next(self._said, 0))

    def rings(self):
        return self._rings


def relays_of(shape, dim, moved):
    """By process, the steps of the relay in which a border along ``dim`` moves, and the rows of its copy table."""
    half, axes, grid = shape[dim] // 2, [[] for _ in range(dim)] + [[0]], Grid((2,))
    borders = [[0, half, shape[dim]]], [[0, half + moved, shape[dim]]]
    source, target = (sg.Sharding(grid, axes, sharded_dims_offsets=offsets) for offsets in borders)
    [move] = sg.plan_reshard(source, target, shape, "f8", strategy="direct").moves
    found, said = {}, []
    for rank in (1, 0):
        comm = SimpleNamespace(rank=rank, size=2, processes=range(2))
        boxes, meeting = LocalBoxes(move, comm, 8, None), Meetings(rank, said)
        relay = RelayedBoxes(comm, meeting, boxes, 8)
        said = meeting.says
        arrays = [np.empty(each) for each in (boxes.given_shape, boxes.into_shape)]
        program = relay.program(*arrays)
        table = program._alive[1]
        found[rank] = int(program.words[at.RELAY_STEPS]), len(table)
    return found


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 1), (1, 0), (2, 0, 2)], ids=str)
def test_rows_do_not_grow_with_the_cells_that_stay(shape):
    """One step, and two rows on each process: the cells that it gives or takes, and those that it keeps."""
    dim = shape.index(0)
    for extent in (10, 1000, 100_000):
        full = tuple([n or extent for n in shape])
        assert relays_of(full, dim, 1) == {0: (1, 2), 1: (1, 2)}, full


@pytest.mark.parametrize("moved", [SLOT_BYTES // 8 - 1, SLOT_BYTES // 8 + 1, SLOT_BYTES])
def test_cells_that_stay_take_part_in_every_step(moved):
    """Each step copies a part of them, so that the caches still hold those around the part that is packed."""
    steps = -(-8 * moved // SLOT_BYTES)
    found = relays_of((1 << 20,), 0, moved)
    assert found == {0: (steps, 2 * steps), 1: (steps, 2 * steps)}


@pytest.mark.parametrize("n", [2, 3])
def test_cells(spmd, n):
    """Borders that move by a cell, by a few steps of a relay, and beyond a block."""

    def body():
        grid = sg.init_grid((n,))
        for shape, dim in (((90_000,), 0), ((3, 30_000), 1), ((400_000,), 0)):
            axes, whole = [[] for _ in range(dim)] + [[0]], np.arange(np.prod(shape) * 1.0).reshape(shape)
            x = sg.from_global(whole, sg.Sharding(grid, axes), grid)
            extent = shape[dim]
            for moved in (1, -1, extent // 5, extent // 2):
                inner = [min(extent, max(0, extent * k // n + moved)) for k in range(1, n)]
                target = sg.Sharding(grid, axes, sharded_dims_offsets=[[0, *inner, extent]])
                for _ in range(3):
                    y = x.reshard(target)
                assert np.array_equal(y.core, whole[target.shard_slices(shape, grid.coords)])
                assert np.array_equal(np.roll(x, moved, dim).to_global(), np.roll(whole, moved, dim))
        return True

    assert all(spmd(n, body))
