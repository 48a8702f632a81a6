"""Random array programs on mixed layouts equal numpy's: uneven and empty blocks, offsets, halos, swapped axes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.compute.expressions import draw_program, play
from support.sources import Drawn, Source

import spmd_grid as sg

PROGRAMS = {1: 15, 2: 20, 3: 20, 4: 15, 5: 10, 6: 10}  # by number of ranks


@st.composite
def programs(draw, ranks):
    return draw_program(Drawn(draw), ranks)


@pytest.mark.parametrize("ranks", PROGRAMS)
def test_random_programs(spmd, ranks, request):
    n_programs = PROGRAMS[ranks] * (20 if request.config.getoption("full") else 1)

    @settings(max_examples=n_programs, suppress_health_check=list(HealthCheck))
    @given(programs(ranks))
    def check(program):
        assert spmd(ranks, play, program) == [None] * ranks

    check()


def test_the_check_can_fail(monkeypatch):
    """A scan that counts one block too few is found."""
    from spmd_grid.compute.functions import scans

    index = scans._index
    monkeypatch.setattr(scans, "_index", lambda grid, axes: max(index(grid, axes) - 1, 0))
    assert any(any(sg.run_spmd(play, draw_program(Source(3, i), 3), ranks=3)) for i in range(60))
