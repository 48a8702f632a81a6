"""Exchanges whose neighbours read arrays in place stage for a while where reading is slow, each process for itself."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.kernels.protocol import slots as at

MOST_SECONDS = {"fast": 3600, "slow": 1e-9}  # of landing
SLOW, AGAIN, TURNS = at.MOST_SLOW, at.MOST_SLOW + 5, at.MOST_SLOW + 8


def body(speeds, periodic):
    """Checks halos on ranks whose landings count as fast or slow; whether each turn has lent arrays."""
    grid = sg.init_grid((-1,))
    n, me, lent = grid.size, grid.rank, []
    sharding, shape = sg.Sharding(grid, [[0], []], halo_sizes=[2, 2]), (8 * n, 5)
    fields = [sg.zeros(shape, sharding, grid) for _ in range(2)]
    with sg.HaloExchange(grid, sharding, shape, "f8", periodic=periodic, n_fields=2, path="read") as halo:
        channel = halo._plan.channel
        channel.stage_if_slow(MOST_SECONDS[speeds[me % len(speeds)]])
        for turn in range(TURNS):
            if turn == AGAIN:
                channel.stage_if_slow(MOST_SECONDS["fast"])
                words = channel._state.words
                words[at.STAGED_UNTIL] = min(words[at.STAGED_UNTIL], channel.epoch + 2)
            assert ("read in member" in halo.describe()) == (not channel._state.stages_all)
            for number, field in enumerate(fields):
                field.local[...] = 100 * turn + 10 * me + number
                field.local[:2], field.local[-2:] = -1, -1
            halo.update(*fields)
            for number, field in enumerate(fields):
                for cells, other in ((field.local[:2], me - 1), (field.local[-2:], me + 1)):
                    exists = periodic or 0 <= other < n
                    wanted = 100 * turn + 10 * (other % n) + number if exists else -1
                    assert np.array_equal(cells, np.full((2, 5), wanted)), (turn, number)
            lent.append(bool(channel._state.words[at.LENDS]))
    return lent


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize(("speeds", "periodic"), [("fast", True), ("slow", True), ("slow fast", True), ("slow", False)])
def test_stages_where_landing_is_slow(spmd, n, speeds, periodic):
    speeds = speeds.split()
    for rank, lent in enumerate(spmd(n, body, speeds, periodic)):
        slow = speeds[rank % len(speeds)] == "slow"
        assert lent == [not slow or turn < SLOW or turn > AGAIN for turn in range(TURNS)], rank
