"""Random array programs on mixed layouts equal numpy's: uneven and empty blocks, offsets, halos, swapped axes."""

import pytest
from support.compute.expressions import play

import spmd_grid as sg

PROGRAMS = 30


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_random_programs(spmd, ranks, request):
    n_programs = PROGRAMS * (10 if request.config.getoption("full") else 1)

    def body():
        return [fault for i in range(n_programs) if (fault := play((ranks, i)))]

    assert spmd(ranks, body) == [[]] * ranks


def test_the_check_can_fail(monkeypatch):
    """A scan that counts one block too few is found."""
    from spmd_grid.compute.functions import scans

    index = scans._index
    monkeypatch.setattr(scans, "_index", lambda grid, axes: max(index(grid, axes) - 1, 0))
    assert any(any(sg.run_spmd(play, (3, i), ranks=3)) for i in range(60))
