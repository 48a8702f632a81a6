"""Memory limits: pieces of exchanges, and bounds on what a process holds of them."""

import doctest
import math
import random

import pytest
from support.reshard.processes import ends_of, most_arrays
from support.reshard.reshard_oracle import random_sharding

import spmd_grid as sg
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry import replicas
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner import chunking
from spmd_grid.reshard.planner.chunking import (
    chunk_bytes,
    chunk_pieces,
    chunks_for,
    contributions,
    held_at_once,
    most_held,
    without_hidden,
)
from spmd_grid.reshard.verify.exchanges import covers_once
from spmd_grid.reshard.volume import demand
from spmd_grid.reshard.volume.demand import most_partners

# -- pieces ------------------------------------------------------------------------------------------------------------


def test_slices_tile_a_box():
    rng = random.Random(4)
    for _ in range(200):
        starts = [rng.randrange(5) for _ in range(rng.choice([1, 2, 3]))]
        box = Box(tuple(starts), tuple(start + rng.randrange(1, 9) for start in starts))
        chunks = rng.choice([1, 2, 3, 7, 40, 1000])
        cuts = [list(chunk_pieces(box, chunk, chunks)) for chunk in range(chunks)]
        assert covers_once([cut for chunk in cuts for cut in chunk], box)
        largest = max(sum(cut.size for cut in chunk) for chunk in cuts)
        assert min(2 * largest, box.size) <= chunk_bytes(box.size, chunks) or largest == 1, (str(box), chunks)


def test_chunks_for():
    assert chunks_for(100, 100) == 1 and chunks_for(100, 0) is None and chunks_for(1 << 40, 1) is None
    for n_bytes, room in ((1000, 999), (1000, 10), (123456, 4567)):
        assert chunk_bytes(n_bytes, chunks_for(n_bytes, room)) <= room


@pytest.mark.parametrize("module", [chunking, demand])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


# -- what a process holds ----------------------------------------------------------------------------------------------

SHAPES = [(2,), (3,), (6,), (2, 3), (4, 2), (4, 4), (3, 1, 2), (2, 2, 2)]


def random_grids(rng):
    source = sg.Grid(rng.choice(SHAPES))
    if rng.random() < 0.6:
        return source, source
    shape = rng.choice(SHAPES)
    ranks = rng.sample(range(20), math.prod(shape)) if rng.random() < 0.5 else None
    return source, sg.Grid(shape, ranks=ranks)


@pytest.mark.parametrize("share_bytes", [1 << 16, 16], ids=["whole", "shared"])
@pytest.mark.parametrize("part", [1, pytest.param(20, marks=pytest.mark.full)], ids=["some", "many"])
def test_bounds_hold_for_each_process(share_bytes, part, monkeypatch):
    """Of cells and boxes over all processes, and of what two chunks in a row hold."""
    monkeypatch.setattr(replicas, "_SHARE_BYTES", share_bytes)
    rng = random.Random(share_bytes + 1)
    near = []
    for _ in range(200 * part):
        shape = [rng.choice([0, 1, 3, 7, 12, 40]) for _ in range(rng.choice([1, 2, 2, 3]))]
        layouts = [Layout(random_sharding(rng, grid, shape, partial=True), shape) for grid in random_grids(rng)]
        move = Redistribution(*layouts, rng.choice([1, 8]), rng.choice([1, 2, 3]))
        bounds, (gets, sends), most = most_held(move), most_partners(move), 0
        for source, target in ends_of(move):
            sent = [] if source is None else move.sends(source)
            got = [] if target is None else move.receives(target)
            assert len(sent) <= sends and len(got) <= gets, move
            cells, boxes = held_at_once(move, source, target)
            assert cells <= bounds[0] and boxes <= bounds[1], move
            most = max(most, boxes)
            chunks = rng.choice([2, 3, 7, 30])
            parts = [without_hidden(move, piece.box) for piece in sent]
            if target is not None:
                parts += [box for box, each in contributions(move, target)[1].items() for _ in each]
            held = [
                sum(cut.size for box in parts for cut in chunk_pieces(box, chunk, chunks)) for chunk in range(chunks)
            ]
            assert sum(held) == cells
            assert max(a + b for a, b in zip(held, held[1:])) <= chunk_bytes(cells, chunks, boxes), move
        near.append(bounds[1] / most if most else 1)
    assert sorted(near)[len(near) * 3 // 4] <= 3


def test_contributions_are_all_there():
    """Each box of cells comes once from each contribution: what a chunk brings can be combined at once."""
    rng, combined = random.Random(11), 0
    for _ in range(300):
        shape = [rng.choice([1, 3, 7, 12]) for _ in range(rng.choice([1, 2]))]
        grids = random_grids(rng)
        layouts = [Layout(random_sharding(rng, grid, shape, partial=True), shape) for grid in grids]
        move = Redistribution(*layouts)
        for device in range(grids[1].size):
            coords = grids[1].multi_index(device)
            rows, found = contributions(move, coords)
            if rows > 1:
                combined += 1
                assert all(sorted(row for _, row in each) == list(range(rows)) for each in found.values())
                assert covers_once(list(found), without_hidden(move, move.target_box(coords)))
            elif rows == 0:
                assert not found
            else:
                assert [process for each in found.values() for process, _ in each] == [
                    piece.process for piece in move.receives(coords)
                ]
    assert combined > 100


@pytest.mark.parametrize("side", [64, 1024])
def test_a_process_with_few_partners_needs_little(side):
    """Memory grows with the number of partners of a process, not with the number of processes."""
    grid, shape, rng = sg.Grid((side, side)), (16 * side, 16 * side), random.Random(side)
    swapped = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1], [0]])
    summed = sg.Sharding(grid, [[0]], partial_axes=[1]), sg.Sharding(grid, [[0], [1]])
    for source, target, messages, partners in ((*swapped, 2 * 256, 2), (*summed, 2 * 256 * side, 2 * side)):
        arrays = most_arrays(source, target, shape) * 8
        assert sg.plan_reshard(source, target, shape, "f8", "direct").totals().peak >= arrays + messages * 8
        limit = arrays + 2 * 8 * partners + messages * 8 // 10
        plan = sg.plan_reshard(source, target, shape, "f8", "direct", memory_limit=limit)
        assert 80 <= plan.chunks <= 85
        for _ in range(5):
            assert plan.peak_bytes((rng.randrange(side), rng.randrange(side))) <= limit
