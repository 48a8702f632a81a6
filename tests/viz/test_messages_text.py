"""Messages of reshardings as text."""

from drawn import layout

from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.viz.messages import messages_text


def test_messages():
    before, after = layout((2, 3), [[0], [1]], (6, 6)), layout((2, 3), [[1], [0]], (6, 6))
    text = messages_text(Redistribution(before, after))
    assert text.splitlines()[:3] == [
        "12 messages, 208 B:",
        "from   to     cells       bytes",
        "(0,1)  (0,0)  [0:2, 2:3]     16",
    ]
    assert len(text.splitlines()) == 14
    assert messages_text(Redistribution(before, after), 1).splitlines()[2:] == [
        "(0,1)  (0,0)  [0:2, 2:3]     16",
        "...",
    ]
    assert messages_text(Redistribution(before, before)) == "no messages"


def test_messages_of_partial_values_and_other_processes():
    before = layout((2,), [], (3,), partial_axes=[0], ranks=(4, 1))
    after = layout((2,), [[0]], (3,), ranks=(0, 1))
    assert messages_text(Redistribution(before, after)).splitlines()[1:] == [
        "from     to   cells               bytes",
        "(0) = 4  (0)  [0:2] of partial 0     16",
        "(1) = 1  (0)  [0:2] of partial 1     16",
        "(0) = 4  (1)  [2:3] of partial 0      8",
    ]


def test_messages_of_very_many():
    grid, shape = (1024, 1024), (2048, 2048)
    text = messages_text(Redistribution(layout(grid, [[0], [1]], shape), layout(grid, [[1], [0]], shape)), 2)
    assert text.splitlines()[0] == "31.97 MiB among 1,048,576 processes, in part:"
    assert len(text.splitlines()) == 5 and text.endswith("\n...")
    slices = Redistribution(layout(grid, [], (2048,)), layout(grid, [[0, 1]], (2048,)))
    assert messages_text(slices) == "no messages"
