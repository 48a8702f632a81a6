"""Random programs with random annotations equal numpy's results: as materialised, after every pass, and after all."""

import numpy as np
import pytest
from support.program.runner import bytes_of, make_case, play, with_schedule

import spmd_grid as sg
from spmd_grid.program.passes import PASSES

PROGRAMS = {1: 2, 2: 9, 3: 9, 4: 6, 6: 4, 8: 3}


@pytest.fixture(scope="module")
def cases():
    """Programs by number of ranks: planned once, run on simulated ranks and under MPI."""
    found = {}

    def of(ranks, factor=1):
        if ranks not in found:
            numbers = range(PROGRAMS[ranks] * factor)
            found[ranks] = [make_case(ranks, i, passes=PASSES, every=factor > 1) for i in numbers]
        return found[ranks]

    return of


@pytest.mark.parametrize("ranks", PROGRAMS)
def test_random_programs(spmd, ranks, cases, request):
    drawn = cases(ranks, 20 if request.config.getoption("full") else 1)

    def body():
        return [fault for case in drawn for fault in play(case)]

    assert spmd(ranks, body) == [[]] * ranks


@pytest.mark.parametrize("ranks", PROGRAMS)
def test_no_pass_moves_more_bytes(ranks, cases):
    for case in cases(ranks):
        before = bytes_of(case.partitions["materialised"].schedule) if case.partitions else 0
        for name, part in case.partitions.items():
            assert bytes_of(part.schedule) <= before, (case.seed, name)


def test_most_programs_are_accepted(cases):
    """Requirements that contradict each other are drawn seldom; the refusal names the value and both lines."""
    drawn = [case for ranks in PROGRAMS for case in cases(ranks)]
    refused = [case.refusal for case in drawn if case.refusal]
    assert len(refused) < len(drawn) / 4
    assert all("%" in each and "both cannot hold" in each for each in refused)


def test_passes_save_bytes(cases):
    drawn = [case.partitions for ranks in PROGRAMS for case in cases(ranks) if case.partitions]
    before, after = (sum(bytes_of(each[name].schedule) for each in drawn) for name in ("materialised", "optimised"))
    assert after < 0.6 * before


def test_reproducible_programs_have_the_bits_of_materialised_ones(cases):
    """Without the passes that change the order of sums, bits stay."""

    def body(case):
        found = []
        for part in case:
            grid = sg.init_grid(part.grid.shape)
            given = [sg.from_global(x, s, grid) for x, s in zip(arguments, part.in_shardings)]
            results = part.run(grid, *given)
            results = results if isinstance(results, tuple) else (results,)
            found.append([np.asarray(x.to_global() if isinstance(x, sg.ShardedArray) else x) for x in results])
        return [np.array_equal(a, b) for a, b in zip(*found)]

    for case in cases(3):
        if case.partitions:
            arguments, whole = case.arguments, case.partitions["materialised"]
            schedule = whole.schedule
            for _, improve, keeps_order in PASSES:
                schedule = improve(schedule) if keeps_order else schedule
            assert all(sg.run_spmd(body, (whole, with_schedule(whole, schedule)), ranks=3)[0]), case.text
