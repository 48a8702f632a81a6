"""The check of exchanges: of who sends and receives which boxes, and that boxes cover what they must."""

import pytest
from support.reshard.layouts import layout
from support.reshard.lying import Lying

from spmd_grid.errors import PlanError
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    Step,
)
from spmd_grid.reshard.verify.exchanges import check_exchange, covers_once
from spmd_grid.reshard.verify.steps import check_plan_steps, check_step


def lying():
    grid = Grid((2, 3))
    return Lying(layout(grid, [[0], [1]], (12, 12)), layout(grid, [[1], [0]], (12, 12)))


def with_box(pieces, change):
    first, *rest = pieces
    return [Piece(first.process, change(first.box)), *rest]


def halved(box):
    return Box(box.starts, (box.stops[0] - 1, *box.stops[1:]))


CHANGES = {
    "as it is": ("kept", lambda box: box, None),
    "a message is missing": ("receives", lambda pieces: pieces[1:], "every cell once"),
    "a cell is missing": ("receives", lambda pieces: with_box(pieces, halved), "every cell once"),
    "a message comes twice": ("receives", lambda pieces: [*pieces, pieces[0]], "every cell once"),
    "what is kept comes too": ("receives", lambda pieces: [*pieces, Piece(4, Box((6, 6), (7, 7)))], "from itself"),
    "nothing is kept": ("kept", lambda box: None, "every cell once"),
    "from a process that does not have it": (
        "receives",
        lambda pieces: [Piece((pieces[0].process + 1) % 6, pieces[0].box), *pieces[1:]],
        "which has",
    ),
    "from nobody": ("receives", lambda pieces: [Piece(6, pieces[0].box), *pieces[1:]], "which has nothing"),
    "an empty box": ("receives", lambda pieces: [*pieces, Piece(0, Box((4, 2), (4, 3)))], "which has"),
    "cells that are not wanted": (
        "receives",
        lambda pieces: with_box(pieces, lambda box: box.grow((1, 0), (0, 0))),
        "which has|it needs",
    ),
    "nothing is sent": ("sends", lambda pieces: [], "sends nothing to process 1, which expects"),
    "part of it is sent": ("sends", lambda pieces: with_box(pieces, halved), "which expects"),
    "sent to somebody else": (
        "sends",
        lambda pieces: [Piece(2, pieces[0].box), *pieces[1:]],
        "which needs|which expects",
    ),
    "sent to itself": ("sends", lambda pieces: [Piece(4, pieces[0].box), *pieces[1:]], "to process 4; it has"),
    "sent to nobody": ("sends", lambda pieces: [Piece(7, pieces[0].box), *pieces[1:]], "which needs nothing"),
    "more is sent than is wanted": (  # to one in the middle, which is not compared with what that one expects
        "sends",
        lambda pieces: [pieces[0], *with_box(pieces[1:], lambda box: box.grow((0, 0), (0, 1)))],
        r"process 4 sends \[8:12, 4:7\] to process 2, which needs \[8:12, 0:6\]",
    ),
    "what it does not have is sent": (
        "sends",
        lambda pieces: with_box(pieces, lambda box: Box((0, 0), (1, 1))),
        "it has",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_exchanges_that_lie(change):
    which, how, words = CHANGES[change]
    moved = lying().tamper(which, how)
    if words is None:
        for process in range(6):
            check_exchange(moved, process)
        return
    with pytest.raises(PlanError, match=words):
        for process in (4, 0, 1, 2, 3, 5):
            check_exchange(moved, process)


def test_the_exchange_that_runs_is_checked():
    """Boxes are checked for native kinds too, where the step will run as an exchange of boxes."""
    grid = Grid((2, 3))
    source, target = layout(grid, [[0, 1]], (7,)), layout(grid, [[0]], (7,))
    step = Step(ALL_GATHER, source, target, (1,), (0,))
    check_plan_steps([step], source, target, moves=[Redistribution(source, target)])
    bad = Lying(source, target).tamper("receives", lambda pieces: pieces[1:])
    with pytest.raises(PlanError, match="every cell once"):
        check_step(step, 4, bad)
    with pytest.raises(PlanError):
        check_plan_steps([step], source, target, moves=[bad])
    with pytest.raises(PlanError, match="would run as"):
        check_step(step, 0, Redistribution(target, source))


def test_covers_once():
    whole = Box((0, 0), (2, 4))
    tiles = [Box((0, 0), (1, 4)), Box((1, 0), (2, 1)), Box((1, 1), (2, 4))]
    assert covers_once(tiles, whole) and covers_once(tiles[::-1], whole) and covers_once([whole], whole)
    for number in range(3):
        assert not covers_once(tiles[:number] + tiles[number + 1 :], whole)
        assert not covers_once([*tiles, tiles[number]], whole)
    assert not covers_once([whole, whole], whole) and not covers_once([], whole)
    assert covers_once([], Box((0, 0), (0, 4))) and not covers_once([whole], Box((0, 0), (0, 4)))
    assert covers_once([Box((), ())], Box((), ())) and not covers_once([], Box((), ()))
    assert not covers_once([Box((), ())] * 2, Box((), ()))


def test_covers_once_where_boxes_interlock():
    """A pinwheel: no cut goes through."""
    tiles = [Box((0, 0), (1, 2)), Box((0, 2), (2, 3)), Box((2, 1), (3, 3)), Box((1, 0), (3, 1)), Box((1, 1), (2, 2))]
    assert covers_once(tiles, Box((0, 0), (3, 3)))
    assert not covers_once(tiles[:-1], Box((0, 0), (3, 3)))
