"""Rounds: every cell of every box goes in one of them; what stays on its process goes in the first."""

from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.reshard.executor.exchanges.staged_rounds import Rounds, n_pieces
from spmd_grid.reshard.verify.exchanges import covers_once

ME = 1


def cells(*starts, shape):
    return Cells(starts, (1,) * len(starts), shape)


def box_of(cells):
    return Box(cells.starts, tuple(start + extent for start, extent in zip(cells.starts, cells.shape, strict=True)))


def test_what_stays_is_copied_once():
    given, kept, got = cells(0, 2, shape=(3, 5)), cells(4, 0, shape=(2, 6)), cells(0, 0, shape=(4, 3))
    takes = [Taken(0, cells(2, 2, shape=(4, 3)), got, (9, 9)), Taken(ME, cells(0, 0, shape=(2, 6)), kept, (9, 9))]
    count = max(n_pieces(each, 4) for each in (given, got))
    rounds = list(Rounds([(0, given)], takes, ME, 4, count))
    assert count > 3 and len(rounds) == count
    stays = [box_of(take.target) for moved in rounds for take in moved.own]
    assert stays[0] == Box((0, 0), (2, 6)) and len(stays) == count and all(box.is_empty for box in stays[1:])
    assert [take.source.shape for moved in rounds for take in moved.own] == [box.shape for box in stays]
    for boxes, whole in (
        ([box_of(piece) for moved in rounds for piece in moved.gives[0]], box_of(given)),
        ([box_of(take.target) for moved in rounds for take in moved.takes[0]], box_of(takes[0].target)),
        ([box_of(take.source) for moved in rounds for take in moved.takes[0]], box_of(got)),
    ):
        filled = [box for box in boxes if not box.is_empty]
        assert covers_once(filled, whole) and max(box.size for box in filled) <= 4
