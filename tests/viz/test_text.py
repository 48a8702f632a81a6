"""Drawings as text: those of the notes on resharding with the block rule's numbers, others letter by letter."""

import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.redistribute import Redistribution
from spmd_grid.viz.array_text import array_text
from spmd_grid.viz.contents_text import contents_text
from spmd_grid.viz.messages import messages_text


def layout(grid, split_axes, shape, **options):
    names, ranks = options.pop("axis_names", None), options.pop("ranks", None)
    return Layout(sg.Sharding(sg.Grid(grid, axis_names=names, ranks=ranks), split_axes, **options), shape)


# The drawings of the notes.  Their slips are mended: a tensor of 2x3 cells that is cut as one of 6 is numbered 1 to 6,
# [[1]] there is [[],[1]], 4x6 is 2x6, and the numbers 23 for 25 and 41 for 14.
NOTES = {
    "6 cells, [[0, 1]] on 2x3": """
        grid axis 1
        ----------->
        +---+---+---+ grid axis 0 |
        | 1 | 2 | 3 | |
        +---+---+---+ |
        | 4 | 5 | 6 | |
        +---+---+---+ ↓
        """,
    "6 cells, [[1, 0]] on 2x3": """
        grid axis 1
        ----------->
        +---+---+---+ grid axis 0 |
        | 1 | 3 | 5 | |
        +---+---+---+ |
        | 2 | 4 | 6 | |
        +---+---+---+ ↓
        """,
    "2x3 cells, [[],[1]] on 2x3": """
        grid axis 1
        ----------->
        +----+----+----+ grid axis 0 |
        | 11 | 12 | 13 | |
        | 21 | 22 | 23 | |
        +----+----+----+ |
        | 11 | 12 | 13 | |
        | 21 | 22 | 23 | |
        +----+----+----+ ↓
        """,
    "2x6 cells, [[],[0, 1]] on 2x3": """
        grid axis 1
        ----------->
        +----+----+----+ grid axis 0 |
        | 11 | 12 | 13 | |
        | 21 | 22 | 23 | |
        +----+----+----+ |
        | 14 | 15 | 16 | |
        | 24 | 25 | 26 | |
        +----+----+----+ ↓
        """,
    "2x6 cells, [[],[0]] on 2x3": """
        grid axis 1
        ----------->
        +----------+----------+----------+ grid axis 0 |
        | 11 12 13 | 11 12 13 | 11 12 13 | |
        | 21 22 23 | 21 22 23 | 21 22 23 | |
        +----------+----------+----------+ |
        | 14 15 16 | 14 15 16 | 14 15 16 | |
        | 24 25 26 | 24 25 26 | 24 25 26 | |
        +----------+----------+----------+ ↓
        """,
    "4x8 cells, [[0],[1, 2]] on 2x2x2": """
        grid axis 2
        ----------->
        +-------+-------+ grid axis 1 | grid axis 0 |
        | 11 12 | 13 14 | | |
        | 21 22 | 23 24 | | |
        +-------+-------+ | |
        | 15 16 | 17 18 | | |
        | 25 26 | 27 28 | | |
        +-------+-------+ ↓ |
        +-------+-------+ |
        | 31 32 | 33 34 | |
        | 41 42 | 43 44 | |
        +-------+-------+ |
        | 35 36 | 37 38 | |
        | 45 46 | 47 48 | |
        +-------+-------+ ↓
        """,
    "4x8 cells, [[0],[2]] on 2x2x2": """
        grid axis 2
        ----------->
        +-------------+-------------+ grid axis 1 | grid axis 0 |
        | 11 12 13 14 | 15 16 17 18 | | |
        | 21 22 23 24 | 25 26 27 28 | | |
        +-------------+-------------+ | |
        | 11 12 13 14 | 15 16 17 18 | | |
        | 21 22 23 24 | 25 26 27 28 | | |
        +-------------+-------------+ ↓ |
        +-------------+-------------+ |
        | 31 32 33 34 | 35 36 37 38 | |
        | 41 42 43 44 | 45 46 47 48 | |
        +-------------+-------------+ |
        | 31 32 33 34 | 35 36 37 38 | |
        | 41 42 43 44 | 45 46 47 48 | |
        +-------------+-------------+ ↓
        """,
    "6x6 cells, [[0],[1]] on 2x3": """
        grid axis 1
        ----------->
        +-------+-------+-------+ grid axis 0 |
        | 11 12 | 13 14 | 15 16 | |
        | 21 22 | 23 24 | 25 26 | |
        | 31 32 | 33 34 | 35 36 | |
        +-------+-------+-------+ |
        | 41 42 | 43 44 | 45 46 | |
        | 51 52 | 53 54 | 55 56 | |
        | 61 62 | 63 64 | 65 66 | |
        +-------+-------+-------+ ↓
        """,
    "6x6 cells, [[1],[0]] on 2x3": """
        grid axis 1
        ----------->
        +----------+----------+----------+ grid axis 0 |
        | 11 12 13 | 31 32 33 | 51 52 53 | |
        | 21 22 23 | 41 42 43 | 61 62 63 | |
        +----------+----------+----------+ |
        | 14 15 16 | 34 35 36 | 54 55 56 | |
        | 24 25 26 | 44 45 46 | 64 65 66 | |
        +----------+----------+----------+ ↓
        """,
    "6x6 cells, [[1],[0]] on 2x3, axis 0 across": """
        grid axis 0
        ----------->
        +----------+----------+ grid axis 1 |
        | 11 12 13 | 14 15 16 | |
        | 21 22 23 | 24 25 26 | |
        +----------+----------+ |
        | 31 32 33 | 34 35 36 | |
        | 41 42 43 | 44 45 46 | |
        +----------+----------+ |
        | 51 52 53 | 54 55 56 | |
        | 61 62 63 | 64 65 66 | |
        +----------+----------+ ↓
        """,
    "6x6 cells, [[0],[1]] on 2x6": """
        grid axis 1
        ----------->
        +----+----+----+----+----+----+ grid axis 0 |
        | 11 | 12 | 13 | 14 | 15 | 16 | |
        | 21 | 22 | 23 | 24 | 25 | 26 | |
        | 31 | 32 | 33 | 34 | 35 | 36 | |
        +----+----+----+----+----+----+ |
        | 41 | 42 | 43 | 44 | 45 | 46 | |
        | 51 | 52 | 53 | 54 | 55 | 56 | |
        | 61 | 62 | 63 | 64 | 65 | 66 | |
        +----+----+----+----+----+----+ ↓
        """,
    "6x6 cells, [[1],[0]] on 2x6, axis 0 across": """
        grid axis 0
        ----------->
        +----------+----------+ grid axis 1 |
        | 11 12 13 | 14 15 16 | |
        +----------+----------+ |
        | 21 22 23 | 24 25 26 | |
        +----------+----------+ |
        | 31 32 33 | 34 35 36 | |
        +----------+----------+ |
        | 41 42 43 | 44 45 46 | |
        +----------+----------+ |
        | 51 52 53 | 54 55 56 | |
        +----------+----------+ |
        | 61 62 63 | 64 65 66 | |
        +----------+----------+ ↓
        """,
    "6x6 cells, [[0]] on 3": """
        +-------------------+ grid axis 0 |
        | 11 12 13 14 15 16 | |
        | 21 22 23 24 25 26 | |
        +-------------------+ |
        | 31 32 33 34 35 36 | |
        | 41 42 43 44 45 46 | |
        +-------------------+ |
        | 51 52 53 54 55 56 | |
        | 61 62 63 64 65 66 | |
        +-------------------+ ↓
        """,
    "6x6 cells, [[],[0]] on 3": """
        grid axis 0
        ----------->
        +-------+-------+-------+
        | 11 12 | 13 14 | 15 16 |
        | 21 22 | 23 24 | 25 26 |
        | 31 32 | 33 34 | 35 36 |
        | 41 42 | 43 44 | 45 46 |
        | 51 52 | 53 54 | 55 56 |
        | 61 62 | 63 64 | 65 66 |
        +-------+-------+-------+
        """,
    "4x4 cells, [[0],[1, 2]] on 2x2x2": """
        grid axis 2
        ----------->
        +----+----+ grid axis 1 | grid axis 0 |
        | 11 | 12 | | |
        | 21 | 22 | | |
        +----+----+ | |
        | 13 | 14 | | |
        | 23 | 24 | | |
        +----+----+ ↓ |
        +----+----+ |
        | 31 | 32 | |
        | 41 | 42 | |
        +----+----+ |
        | 33 | 34 | |
        | 43 | 44 | |
        +----+----+ ↓
        """,
    "4x4 cells, [[0, 1],[2]] on 2x2x2": """
        grid axis 2
        ----------->
        +-------+-------+ grid axis 1 | grid axis 0 |
        | 11 12 | 13 14 | | |
        +-------+-------+ | |
        | 21 22 | 23 24 | | |
        +-------+-------+ ↓ |
        +-------+-------+ |
        | 31 32 | 33 34 | |
        +-------+-------+ |
        | 41 42 | 43 44 | |
        +-------+-------+ ↓
        """,
}


def numbers(text):
    return tuple(map(int, text.split("x")))


def squeezed(text):
    """The notes keep one blank where several were."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]


@pytest.mark.parametrize("title", NOTES)
def test_drawings_of_the_notes(title):
    shape, split_axes = title.split(" cells, ")[0], title[title.index("[") : title.rindex("]") + 1]
    words = title.split(" on ")[1].split(", ")
    drawn = layout(numbers(words[0]), eval(split_axes), numbers(shape))
    assert squeezed(contents_text(drawn, 0 if len(words) > 1 else None)) == squeezed(NOTES[title])


# Letter by letter.
CONTENTS = [
    (
        layout((2, 3), [[0], [1]], (4, 4), halo_sizes=[1, 1, 0, 2]),
        """
grid axis 1
----------->
+------------------+------------------+----------+  grid axis 0 |
|   .   .   .   .  |   .   .   .   .  |   .   .  |              |
|  11  12 (13)(14) |  13  14   .   .  |   .   .  |              |
|  21  22 (23)(24) |  23  24   .   .  |   .   .  |              |
| (31)(32)(33)(34) | (33)(34)  .   .  |   .   .  |              |
+------------------+------------------+----------+              |
| (21)(22)(23)(24) | (23)(24)  .   .  |   .   .  |              |
|  31  32 (33)(34) |  33  34   .   .  |   .   .  |              |
|  41  42 (43)(44) |  43  44   .   .  |   .   .  |              |
|   .   .   .   .  |   .   .   .   .  |   .   .  |              |
+------------------+------------------+----------+              ↓
""",
    ),
    (
        layout((2, 2), [[0], [], [1]], (3, 2, 3), axis_names=("x", "y")),
        """
grid axis y
----------->
+---------+-----+  grid axis x |
| 111 112 | 113 |              |
| 121 122 | 123 |              |
|         |     |              |
| 211 212 | 213 |              |
| 221 222 | 223 |              |
+---------+-----+              |
| 311 312 | 313 |              |
| 321 322 | 323 |              |
+---------+-----+              ↓
""",
    ),
    (
        layout((2, 3), [[1]], (5, 1), partial_axes=[0], partial_kind="max"),
        """
grid axis 1
----------->
+----+----+----+  grid axis 0 |
| 11 | 31 | 51 |              |
| 21 | 41 |    |              |
+----+----+----+              |
| 11 | 31 | 51 |              |
| 21 | 41 |    |              |
+----+----+----+              ↓

Partial values along grid axis 0, to be combined by max.
""",
    ),
    (
        layout((3,), [[], [0]], (2, 11), blocks="balanced"),
        """
grid axis 0
----------->
+---------------------+---------------------+----------------+
|  1.1  1.2  1.3  1.4 |  1.5  1.6  1.7  1.8 |  1.9 1.10 1.11 |
|  2.1  2.2  2.3  2.4 |  2.5  2.6  2.7  2.8 |  2.9 2.10 2.11 |
+---------------------+---------------------+----------------+
""",
    ),
    (
        layout((4,), [[0]], (5,)),
        """
grid axis 0
----------->
+-----+-----+---+---+
| 1 2 | 3 4 | 5 | - |
+-----+-----+---+---+
""",
    ),
    (
        layout((1, 2), [], ()),
        """
grid axis 1
----------->
+---+---+  grid axis 0 |
| x | x |              |
+---+---+              ↓
""",
    ),
]


@pytest.mark.parametrize(("drawn", "text"), CONTENTS)
def test_contents(drawn, text):
    assert contents_text(drawn) == text.strip()


def test_contents_of_four_axes():
    """The inner arrows are as long as the first of what they repeat in."""
    lines = contents_text(layout((2, 2, 2, 1), [[0, 1, 2]], (8,))).splitlines()[2:]
    assert len(lines) == 20
    columns = [lines[0].index(f"grid axis {axis} |") + 12 for axis in (2, 1, 0)]
    for column, length in zip(columns, (5, 10, 20)):
        assert [line[column : column + 1] for line in lines[:length]] == ["|"] * (length - 1) + ["↓"]
        assert not any(line[column : column + 1].strip() for line in lines[length:])


def test_what_is_too_large_for_its_contents():
    with pytest.raises(sg.ShardingError, match="contents of 65 devices; they are drawn for up to 64"):
        contents_text(layout((65,), [[0]], (4,)))
    with pytest.raises(sg.ShardingError, match="contents of 8000 cells in all local arrays; they are drawn for up to"):
        contents_text(layout((2,), [], (4000,)))


ARRAYS = [
    (
        layout((2, 3), [[1], [0]], (6, 6)),
        """
    tensor axis 1
    ----------->
       0:3     3:6
    +-------+-------+  tensor axis 0 |
0:2 | (0,0) | (1,0) |                |
    +-------+-------+                |
2:4 | (0,1) | (1,1) |                |
    +-------+-------+                |
4:6 | (0,2) | (1,2) |                |
    +-------+-------+                ↓
""",
    ),
    (
        layout((2, 3), [[0], [1]], (4, 4), halo_sizes=[1, 1, 0, 2]),
        """
          tensor axis 1
          ----------->
             0:2     2:4
            (0:4)   (2:4)
          +-------+-------+  tensor axis 0 |
0:2 (0:3) | (0,0) | (0,1) |                |
          +-------+-------+                |
2:4 (1:4) | (1,0) | (1,1) |                |
          +-------+-------+                ↓

In parentheses: with halos, as far as they lie in the array.
Without cells: 2 of 6 devices, (*,2).
""",
    ),
    (
        layout((2, 3, 2), [[1]], (5,), partial_axes=[0]),
        """
tensor axis 0
----------->
    0:2       2:4       4:5
+---------+---------+---------+
| (+,0,*) | (+,1,*) | (+,2,*) |
+---------+---------+---------+

*: every device along this grid axis holds a copy.
+: partial values along grid axis 0, to be combined by sum.
""",
    ),
    (
        layout((2, 2), [[0], [], [1]], (3, 2, 3)),
        """
[0:2, :, :]
    tensor axis 2
    ----------->
       0:2     2:3
    +-------+-------+  tensor axis 1 |
0:2 | (0,0) | (0,1) |                |
    +-------+-------+                ↓

[2:3, :, :]
    tensor axis 2
    ----------->
       0:2     2:3
    +-------+-------+  tensor axis 1 |
0:2 | (1,0) | (1,1) |                |
    +-------+-------+                ↓
""",
    ),
    (
        layout((1024, 1024), [[0, 1]], (655361,)),
        """
tensor axis 0
----------->
   0:1     1:2     2:3     3:4     4:5     5:6          655360:655361
+-------+-------+-------+-------+-------+-------+-----+---------------+
| (0,0) | (0,1) | (0,2) | (0,3) | (0,4) | (0,5) | ... | (1022,258)    |
+-------+-------+-------+-------+-------+-------+-----+---------------+

Drawn in part: 655,361 blocks on 1,048,576 devices.
Without cells: 393,215 of 1,048,576 devices.
""",
    ),
    (layout((2, 2), [], ()), "+-------+\n| (*,*) |\n+-------+\n\n*: every device along this grid axis holds a copy."),
    (layout((2,), [[0]], (0, 3)), "Without cells: 2 of 2 devices, (*)."),
]


@pytest.mark.parametrize(("drawn", "text"), ARRAYS)
def test_arrays(drawn, text):
    assert array_text(drawn) == text.strip("\n")


def test_no_more_than_four_planes():
    text = array_text(layout((3, 3), [[0], [1]], (3, 3, 2, 2)))
    assert text.count(":, :]") == 4 and text.endswith("Drawn in part: 9 blocks on 9 devices.")


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
