"""Drawings of arrays and who holds what of them, letter by letter."""

import pytest
from drawn import layout

from spmd_grid.viz.text.array import array_text

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
