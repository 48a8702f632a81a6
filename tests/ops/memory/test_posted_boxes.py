"""The part of its array that a member posts for others of its node: a range of it, or boxes that are packed."""

import numpy as np

from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.grid.box import Box
from spmd_grid.kernels.ahead.slots import LINE_POST_BYTES
from spmd_grid.ops.movement.items import Item
from spmd_grid.ops.movement.posted import Posted, fit_lines, posted_by

# Members 0, 1 and 2 share a node, 3 has another one.
NODES, DTYPE = NodeMap.from_firsts([0, 0, 0, 3]), np.dtype(float)


def posted(shape, *boxes, carried=()):
    """The part of an array that member 0 posts if members 1, 2 and 3 need one box each."""
    received = [[], *([Item(0, box)] for box in boxes)]
    shapes = [shape, None, None, None]
    return posted_by(shapes, received, DTYPE, NODES, [Item(0, box) for box in carried])[0]


def test_only_what_others_of_the_node_need_is_posted():
    rows = [Box((i, 0), (i + 2, 5)) for i in (2, 4, 6)]
    assert posted((8, 5), *rows) == Posted(20 * 8, 10 * 8)
    assert posted((8, 5), Box((0, 0), (0, 5)), Box((0, 0), (0, 5)), rows[2]) == Posted()


def test_boxes_are_packed_where_the_bytes_between_them_are_too_many():
    shape, columns = (70, 33), [Box((0, i), (70, i + 3)) for i in (0, 10, 20)]
    found = posted(shape, *columns)
    assert found.starts == {columns[0]: 0, columns[1]: 70 * 3 * 8} and found.n_bytes == 2 * 70 * 3 * 8
    x, line = np.random.default_rng(1).standard_normal(shape), np.zeros(found.n_bytes // 8)
    for row in found.rows(shape, DTYPE):
        index = np.indices([extent for extent, _, _ in row.dims[:-1]]).reshape(len(row.dims) - 1, -1).T
        length = row.dims[-1][0]
        for at in index:
            before = row.source_offset + sum(int(i) * dim[1] for i, dim in zip(at, row.dims))
            after = row.target_offset + sum(int(i) * dim[2] for i, dim in zip(at, row.dims))
            line.view("u1")[after : after + length] = x.view("u1").reshape(-1)[before : before + length]
    assert np.array_equal(line, np.concatenate([x[box.slices()].ravel() for box in columns[:2]]))


def test_boxes_that_others_send_lie_as_in_the_array():
    columns = [Box((0, i), (70, i + 3)) for i in (0, 10, 20)]
    found = posted((70, 33), *columns, carried=columns[2:])
    assert found.starts is None and found.n_bytes == (69 * 33 + 23) * 8


def test_parts_fit_lines_if_each_of_them_does():
    n = LINE_POST_BYTES // 8
    shapes = [(4 * n,)] * 4
    blocks = [Box((i * n // 2,), ((i + 1) * n // 2,)) for i in range(4)]
    received = [[Item(source, block) for source in range(4)] for block in blocks]
    assert fit_lines(shapes, received, DTYPE, NODES)  # two of them in each line
    assert not fit_lines(shapes, [[Item(0, Box((0,), (n + 1,)))], [], [], []], DTYPE, NODES)
    whole = [[Item(source, Box((0,), (n,))) for source in range(4)]] * 4
    assert fit_lines([(n,)] * 4, whole, DTYPE, NODES)
