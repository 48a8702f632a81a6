"""Reshardings between nodes: results, and the bytes of all messages against the fewest that can cross.

One machine whose arena is divided stands for several.  Bytes are those of the buffers that channels and single messages
hand to MPI for processes outside a node's arena.
"""

import json

import pytest
from support.jobs import run_job

from spmd_grid.grid.box import Box
from spmd_grid.reshard.geometry.node_pieces import pieces_to_node
from spmd_grid.reshard.geometry.pieces import Piece

PROGRAM = """
import json, random, sys
import numpy as np
import spmd_grid as sg
from support.crossing import CrossedBytes

crossed = CrossedBytes()
shape, per_node, extent, seed = json.loads(sys.argv[1])
grid = sg.init_grid(shape)
n, me = grid.grid.size, grid.rank
node_of = [process // per_node for process in range(n)]
rng = random.Random(seed)

def some_layout(partial):
    cuts, axes = [[], []], list(range(len(shape)))
    rng.shuffle(axes)
    free = [axis for axis in axes if rng.random() < 0.5]
    for axis in axes:
        if axis not in free:
            rng.choice(cuts).append(axis)
    halos = [(rng.randrange(3) * 8, rng.randrange(3) * 8) for cut in cuts if cut] if rng.random() < 0.4 else None
    given = dict(partial_axes=free[:1]) if partial and free else dict(halo_sizes=halos)
    return sg.Sharding(grid, cuts, blocks=rng.choice(["ceil", "balanced"]), **given)

def held(layout, process, halos):
    mask = np.zeros(layout.global_shape, bool)
    coords = layout.grid.multi_index(process)
    box = layout.local_box(coords).intersect(layout.domain_box) if halos else layout.core_box(coords)
    mask[box.slices()] = True
    return mask

def fewest(move):
    found = 0
    for node in set(node_of):
        members = [process for process in range(n) if node_of[process] == node]
        needed = np.any([held(move.target, process, True) for process in members], axis=0)
        here = np.any([held(move.source, process, False) for process in members], axis=0)
        found += int(np.count_nonzero(needed & ~here))
    return found * move.itemsize

rows = []
for number in range(14):
    partial = number % 5 == 4
    source, target = some_layout(partial), some_layout(False)
    dtype = np.dtype(rng.choice(["f8", "i2", "c16"]))
    whole = np.arange(extent * (extent + 3), dtype="i8").reshape(extent, extent + 3).astype(dtype)
    given = sg.ShardedArray.from_global(whole, source, grid)
    for strategy in ("direct", "auto"):
        plan = sg.plan_reshard(source, target, whole.shape, dtype, strategy)
        expected = sg.ShardedArray.from_global(whole, target, grid).local
        for memory in ("arena", "heap"):
            local = given.local if memory == "arena" else given.local.copy()
            out = None if memory == "arena" else np.empty_like(expected)
            for _ in range(2):
                before = crossed.n
                result = sg.run_plan(plan, local, grid, out=out)
                moved = crossed.n - before
                assert np.array_equal(result, expected), (number, strategy, memory, source, target)
        total = int(sg.all_reduce(moved, grid))
        bound = None if partial else sum(map(fewest, plan.moves))
        rows.append((f"{number} {strategy}: {source} to {target}, {len(plan.moves)} steps", total, bound))
if me == 0:
    print(json.dumps(rows))
"""


@pytest.mark.parametrize(
    ("shape", "per_node", "extent"),
    [
        pytest.param([2, 2], 2, 250, id="2 nodes of 2"),
        pytest.param([4], 3, 250, id="nodes of 3 and 1"),
        pytest.param([2, 3], 3, 211, id="2 nodes of 3", marks=pytest.mark.full),
        pytest.param([2, 2], 2, 1500, id="2 nodes of 2, in rounds", marks=pytest.mark.full),
        pytest.param([3, 2], 2, 211, id="3 nodes of 2", marks=pytest.mark.full),
        pytest.param([2, 3], 4, 211, id="nodes of 4 and 2", marks=pytest.mark.full),
    ],
)
def test_reshardings_cross_once(tmp_path, shape, per_node, extent):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    n = 6 if len(shape) > 1 and shape != [2, 2] else 4
    job = run_job(
        "mpiexec",
        n,
        program,
        json.dumps([shape, per_node, extent, sum(shape)]),
        environment={"SPMD_GRID_RANKS_PER_NODE": str(per_node)},
    )
    assert (job.code, job.err) == (0, ""), job
    rows = json.loads(job.out)
    assert len(rows) == 28
    small = 16 * 4096  # boxes of less than a page are sent to each of their receivers
    for name, crossed, bound in rows:
        assert bound is None or bound <= crossed <= bound + small, (name, crossed, bound, rows)
    assert sum(bound or 0 for *_, bound in rows) > 0


def test_overlapping_boxes_cross_once():
    """Cells of boxes that overlap in part are received by one process of the node, and copied by the others."""
    boxes = {4: Box((0, 0), (40, 50)), 5: Box((30, 0), (80, 50)), 6: Box((0, 0), (40, 50)), 7: Box((60, 10), (99, 40))}
    found = pieces_to_node({process: [Piece(process - 4, box)] for process, box in boxes.items()}, {}, itemsize=64)
    cells = {process: [piece.box for piece in pieces] for process, pieces in found.crossing.items()}
    received = [box for pieces in cells.values() for box in pieces]
    assert all(a.intersect(b).is_empty for i, a in enumerate(received) for b in received[:i])
    for owner, taker, box in found.shared:
        assert any(piece.contains(box) for piece in cells[owner])
        cells[taker].append(box)
    for process, box in boxes.items():
        assert sum(piece.size for piece in cells[process]) == box.size
        assert all(box.contains(piece) for piece in cells[process])
    assert all(piece.process == process - 4 for process, pieces in found.crossing.items() for piece in pieces)
