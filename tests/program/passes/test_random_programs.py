"""Random programs with random annotations equal numpy's results: as materialised, after every pass, and after all."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.program.runner import bytes_of, cases, make_case, play, with_schedule
from support.sources import Source

import spmd_grid as sg
from spmd_grid.program.passes import PASSES

PROGRAMS = {1: 3, 2: 9, 3: 9, 4: 6, 6: 4, 8: 3}  # by number of ranks


@pytest.mark.parametrize("ranks", PROGRAMS)
def test_random_programs(spmd, ranks, request):
    is_full = request.config.getoption("full")

    @settings(max_examples=PROGRAMS[ranks] * (20 if is_full else 1), suppress_health_check=list(HealthCheck))
    @given(cases(ranks, every=is_full))
    def check(case):
        assert spmd(ranks, play, case) == [[]] * ranks
        if case.refusal:  # of requirements that contradict each other: the value and both lines
            assert "%" in case.refusal and "both cannot hold" in case.refusal
        before = bytes_of(case.partitions["materialised"].schedule) if case.partitions else 0
        for name, part in case.partitions.items():
            assert bytes_of(part.schedule) <= before, name

    check()


def test_most_programs_are_accepted_and_passes_save_bytes():
    drawn = [make_case(ranks, Source(7, ranks, i)) for ranks in (2, 3, 4) for i in range(4)]
    assert sum(bool(case.refusal) for case in drawn) < len(drawn) / 4
    accepted = [case.partitions for case in drawn if case.partitions]
    before, after = (sum(bytes_of(each[name].schedule) for each in accepted) for name in ("materialised", "optimised"))
    assert after < 0.6 * before


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_reproducible_programs_have_the_bits_of_materialised_ones(data):
    """Without the passes that change the order of sums, bits stay."""
    case = data.draw(cases(3))

    def body(parts):
        found = []
        for part in parts:
            grid = sg.init_grid(part.grid.shape)
            held = [sg.from_global(x, s, grid) for x, s in zip(case.arguments, part.in_shardings)]
            results = part.run(grid, *held)
            results = results if isinstance(results, tuple) else (results,)
            found.append([np.asarray(x.to_global() if isinstance(x, sg.ShardedArray) else x) for x in results])
        return [np.array_equal(a, b) for a, b in zip(*found)]

    if case.partitions:
        whole = case.partitions["materialised"]
        schedule = whole.schedule
        for _, improve, keeps_order in PASSES:
            schedule = improve(schedule) if keeps_order else schedule
        assert all(sg.run_spmd(body, (whole, with_schedule(whole, schedule)), ranks=3)[0])
