"""Random programs: every operation after every other, on arrays that lie where earlier operations left them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs.generator import make_program
from support.programs.runner import play
from support.programs.steps import PATHS
from support.properties.draws import HypothesisDraw, RandomDraw
from support.properties.property_strategies import with_fixtures

import spmd_grid as sg

QUICK, MOST_STEPS = 50, 14


@st.composite
def programs(draw, most_ranks, most_steps=MOST_STEPS):
    return make_program(HypothesisDraw(draw), most_ranks, most_steps)


def run_program(spmd, program, seed=None):
    with sg.forced_path(program.path):
        spmd(program.n_ranks, play, program, seed=seed)


@settings(with_fixtures, max_examples=QUICK)
@given(st.data())
def test_programs(spmd, most_ranks, data):
    run_program(spmd, data.draw(programs(most_ranks)))


@pytest.mark.full
@with_fixtures
@given(st.data())
def test_many_programs(spmd, most_ranks, data):
    run_program(spmd, data.draw(programs(most_ranks)), data.draw(st.sampled_from([None, 0, 1])))


@pytest.mark.parametrize("path", PATHS)
def test_a_program_on_every_path(spmd, most_ranks, path):
    for seed in 5, 17:  # which have steps of all kinds
        run_program(spmd, make_program(RandomDraw(seed), most_ranks, 30, [path]))


def test_programs_are_drawn_alike(most_ranks):
    """As the soak needs it: all processes draw the same program from the same seed."""
    first, second = (str(make_program(RandomDraw(3, 4), most_ranks, 20)) for _ in range(2))
    assert first == second != str(make_program(RandomDraw(3, 5), most_ranks, 20))
