"""Pieces from other nodes that come to the result itself: those that their receiver alone needs, in a row of it."""

import math

import numpy as np
import pytest

from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.kernels.ahead.slots import IN_MEMORY
from spmd_grid.ops.movement.crossing_pieces import pieces_of_movement
from spmd_grid.ops.movement.items import Item
from spmd_grid.ops.movement.pieces import Leave, Pieces, Position, Step, Take

# Members 0 and 1 share a node, 2 and 3 another one; each has a square, a part of which goes to others.
SIDE, NODES, DTYPE = 1024, NodeMap.from_firsts([0, 0, 2, 2]), np.dtype(np.float32)
HALF = SIDE // 2


def parts_of(me, sent, lands_at, receivers=(2,), constant=()):
    """The pieces of ``me``: box ``sent`` of member 0 goes to ``receivers``, to the box ``lands_at`` of theirs."""
    send = tuple(Send(peer, sent) for peer in receivers) if me == 0 else ()
    receive = (Receive(0, sent, lands_at),) if me in receivers else ()
    transfer = Transfer("pairwise", me, 4, (SIDE, SIDE), (SIDE, SIDE), send, receive, sent.size)
    received = [[Item(0, sent)] if member in receivers else [] for member in range(4)]
    return pieces_of_movement(transfer, [(SIDE, SIDE)] * 4, received, DTYPE, NODES, constant)[0]


def arrivals_of(pieces):
    return [arrival for step in pieces.steps for arrival in step.arrivals]


def test_rows_come_to_the_result_where_they_lie_in_it_one_after_the_other():
    pieces = parts_of(2, Box((0, 0), (HALF, SIDE)), Box((HALF, 0), (SIDE, SIDE)))
    first, *arrivals = arrivals_of(pieces)
    assert all(arrival.lands for arrival in arrivals)
    assert not first.lands and len(pieces.takes) == 1  # nothing comes to the result before the run is known
    before = [first.n_bytes + sum(each.n_bytes for each in arrivals[:i]) for i in range(len(arrivals))]
    assert [arrival.at - HALF * SIDE * DTYPE.itemsize for arrival in arrivals] == before
    assert first.n_bytes + sum(arrival.n_bytes for arrival in arrivals) == HALF * SIDE * DTYPE.itemsize


def test_columns_that_fill_the_rows_of_a_smaller_box_do_not_land():
    pieces = parts_of(2, Box((0, 0), (SIDE, HALF)), Box((0, HALF), (SIDE, SIDE)))
    assert not any(arrival.lands for arrival in arrivals_of(pieces))
    assert len(pieces.takes) == len(pieces.steps)


@pytest.mark.parametrize("me", [2, 3])
def test_what_others_of_the_node_need_comes_to_the_memory(me):
    pieces = parts_of(me, Box((0, 0), (HALF, SIDE)), Box((0, 0), (HALF, SIDE)), receivers=(2, 3))
    arrivals = arrivals_of(pieces)
    assert arrivals and not any(arrival.lands for arrival in arrivals)
    assert len(pieces.takes) > len(arrivals)  # also what the other one receives


def test_nothing_lands_where_a_constant_fills_the_result_first():
    rows = [object()]
    pieces = parts_of(2, Box((0, 0), (HALF, SIDE)), Box((0, 0), (HALF, SIDE)), constant=rows)
    assert not any(arrival.lands for arrival in arrivals_of(pieces)) and pieces.takes[0].rows is rows


@pytest.mark.parametrize("width", [SIDE, HALF + 3])
def test_cells_of_this_node_are_copied_in_parts(width):
    box = Box((0, 0), (SIDE, width))
    pieces = parts_of(1, box, box, receivers=(1,))
    sizes = [math.prod(extent for extent, _, _ in row.dims) for take in pieces.takes for row in take.rows]
    offsets = [row.target_offset for take in pieces.takes for row in take.rows]
    assert sum(sizes) == SIDE * width * DTYPE.itemsize and len(set(offsets)) == len(offsets)
    taken = [sum(math.prod(extent for extent, _, _ in row.dims) for row in take.rows) for take in pieces.takes]
    assert len(taken) > 4 and max(taken) <= 1 << 18


@pytest.mark.parametrize(
    ("source", "takes_before"), [(0, 0), (IN_MEMORY, 0), (1, 3)], ids=["its own", "in its memory", "of another"]
)
def test_others_may_change_what_a_member_sends_of_theirs_once_it_has_gone(source, takes_before):
    """More than all takes and one more: not even at the end, before MPI has read it."""
    send = Step(leaves=[Leave(2, Position(source, 0), 8)])
    assert Pieces([send], [Take(0, 0, Position(0, 0), ())], 0, 0, 0, (), True).last_read(0) == takes_before
