"""Exceptions at random moments of random programs, and the cases that these have brought to light."""

import numpy as np
from support.interrupting import Events, Interrupt
from support.programs.generator import make_program
from support.programs.interrupted import draw_interruptions, faults_of, play_interrupted
from support.programs.steps import PATHS
from support.properties.draws import RandomDraw

import spmd_grid as sg

PROGRAMS, PROGRAMS_IF_FULL = 60, 300


def test_random_programs_end_rightly_or_with_the_promised_error(request):
    n_programs = PROGRAMS_IF_FULL if request.config.getoption("full") else PROGRAMS
    n_interrupted = n_cut = 0
    for number in range(n_programs):
        program = make_program(RandomDraw(23, number), 4, 6, [PATHS[number % len(PATHS)]])
        interruptions = draw_interruptions((23, number), program)
        with sg.forced_path(program.path):
            order = number if number % 2 else None
            outcomes = sg.run_spmd(play_interrupted, program, interruptions, ranks=program.n_ranks, seed=order)
        assert not faults_of(outcomes), f"program {number}\n{program}\n" + "\n".join(faults_of(outcomes))
        n_interrupted += any(outcome.place for outcome in outcomes)
        n_cut += any(outcome.texts for outcome in outcomes)
    assert n_interrupted > n_programs / 2 and n_cut > n_programs / 3, "the interrupts do not come to the operations"


def update_in_two_dimensions(n):
    """The error of a halo update that rank 2 leaves at event ``n``."""
    try:
        grid = sg.init_grid((2, 2))
        with Events(n if grid.rank == 2 else None).watch():
            sg.update_halo(np.zeros((5, 5)), grid, [[0], [1]], [1, 1, 1, 1])
    except BaseException as error:
        return error


def test_an_update_in_two_dimensions_takes_no_cut_for_a_neighbours_refusal(request):
    n_interrupted = 0
    events = range(20, 320, 1 if request.config.getoption("full") else 4)  # at 20 it has begun
    for n in events:
        errors = sg.run_spmd(update_in_two_dimensions, n, ranks=4, seed=n)
        if isinstance(errors[2], Interrupt):
            n_interrupted += 1
            assert {type(errors[rank]) for rank in (0, 1, 3)} <= {sg.CutOffError, type(None)}, (n, errors)
    assert n_interrupted > len(events) / 3
