"""Operations of groups that span nodes: one machine whose arena is divided, so that processes count as several."""

import pytest
from support.jobs import check_fine

PROGRAM = """
import os
import numpy as np
import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.crossing_meeting import CrossingMeeting
from spmd_grid.exchange.agreement.header import Facts
from support.ops.arrays_anywhere import KINDS, check_all, placed

grid = sg.init_grid((-1,))
n, me, per_node = grid.grid.size, grid.rank, int(os.environ["SPMD_GRID_RANKS_PER_NODE"])
rng = np.random.default_rng(3)
for number, shape in enumerate([(4, 3), (40, 33), (301, 300)]):
    for i, kind in enumerate([*KINDS, "mixed"]):
        out_kind = [None, "arena", "every other column"][(number + i) % 3]
        check_all(grid, n, me, rng.standard_normal((n, *shape)), kind, out_kind, per_node)
for _ in range(3):  # some arrays travel with the header, others do not
    extents = [int(extent) for extent in rng.choice([0, 3, 500, 70_000], n)]
    parts = [rng.standard_normal(extent) for extent in extents]
    assert np.array_equal(sg.all_gather(parts[me], grid, [0], 0), np.concatenate(parts))
    assert np.array_equal(sg.shift(parts[me], grid, [0], 0, -1, rotate=True), parts[(me + 1) % n])
meeting = meeting_of(grid.group((0,)))
assert isinstance(meeting, CrossingMeeting)
facts = [Facts((40,), np.dtype(float))] * n
for turn in range(4):
    arrays = meeting.arrays(meeting.swap(np.full(40, me + 10.0 * turn)), facts)
    assert all((array == member + 10 * turn).all() for member, array in enumerate(arrays) if member != me)
for count in (1, 16, 17, 200, 256, 300):  # calls become compiled ones, of which some members are told late
    x = np.arange(count) + 100.0 * me
    for turn in range(20):
        x += turn
        base = np.arange(count) + turn * (turn + 1) // 2
        if turn % 7 == me:
            sg.all_reduce(x[::-1][::-1], grid, [0], out=np.empty(count)[:])
        else:
            assert (sg.all_reduce(x, grid, [0]) == n * base + 100 * n * (n - 1) // 2).all()
        assert (sg.all_gather(x, grid, [0], 0) == np.concatenate([base + 100 * i for i in range(n)])).all()
        assert (sg.broadcast(x if me == n - 1 else None, grid, [0], [n - 1]) == base + 100 * (n - 1)).all()
pairs = sg.init_grid((n // 2, 2))
x = np.full((300, 200), float(me))
assert (sg.all_reduce(x, pairs, [0]) == sum(range(me % 2, n, 2))).all()  # across the nodes
assert (sg.all_reduce(x, pairs, [1]) == 2 * (me // 2 * 2) + 1).all()  # within one
request = sg.all_gather.start(x, grid, [0], 0)
assert (sg.shift(x, grid, [0], 0, 1, rotate=True) == (me - 1) % n).all()
assert (request.wait()[:: 300, 0] == np.arange(n)).all()
print("fine")
"""


@pytest.mark.parametrize(
    ("n", "per_node"), [(4, "3"), *(pytest.param(4, each, marks=pytest.mark.full) for each in "12")]
)
def test_several_nodes(tmp_path, n, per_node):
    check_fine(tmp_path, n, PROGRAM, SPMD_GRID_RANKS_PER_NODE=per_node)
