"""Which halo cells come from whom, against brute force over cells."""

from itertools import product

import pytest
from halo_oracle import local_cells

from spmd_grid.halo.pattern import halo_pieces, in_domain

STARTS = [
    [0, 5],
    [0, 0],
    [0, 3, 5],
    [0, 0, 4],
    [0, 4, 4],
    [0, 1, 2, 3],
    [0, 2, 2, 2, 7],
    [0, 3, 4, 6],
    [0, 0, 0, 0],
    [0, 1, 1, 5, 6, 6, 8],
]


@pytest.mark.parametrize("starts", STARTS, ids=str)
def test_pieces_are_the_halo_cells_of_the_domain(starts):
    owners = [device for device in range(len(starts) - 1) for _ in range(starts[device], starts[device + 1])]
    for device, low, high, periodic in product(range(len(starts) - 1), range(8), range(8), [False, True]):
        cells, known = local_cells(starts, device, low, high, periodic)
        core = range(low, low + starts[device + 1] - starts[device])
        wanted = {at: cells[at] for at in range(len(cells)) if known[at] and at not in core}
        found = {}
        for piece in halo_pieces(starts, device, low, high, periodic):
            assert piece.start < piece.stop
            for i, cell in enumerate(range(piece.start, piece.stop)):
                assert piece.at + i not in found
                assert owners[cell] == piece.owner
                found[piece.at + i] = cell
        assert found == wanted
        assert list(found) == sorted(found)
        start, stop = in_domain(starts, device, low, high, periodic)
        assert [start <= at < stop for at in range(len(cells))] == known.tolist()
