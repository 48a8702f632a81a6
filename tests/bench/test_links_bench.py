"""The benchmark of the links: rows in full on pretended nodes, honest verdicts, and files that keep other links."""

import json
from dataclasses import replace

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.links import measure
from spmd_grid.bench.links.calls import trial_of
from spmd_grid.bench.links.cases import LARGE, SMALL, Drawn, LinksCase, all_cases, quick_cases, random_pair
from spmd_grid.bench.links.pace import Moments, Pace, PaceOf
from spmd_grid.bench.links.report import LinksRow, less_disturbed, summary, table
from spmd_grid.links.model import LinkModel


class Ranks:
    """The operations that timing needs, of simulated ranks."""

    def __init__(self, grid):
        self._grid = grid

    def Barrier(self):
        sg.all_reduce(1, self._grid, [0])

    def allgather(self, value):
        return sg.all_gather(np.array([value]), self._grid, [0], 0).tolist()


class Done:
    """A request that is done."""

    def Test(self):
        return True


class Alone(Ranks):
    """The communicator of a rank that is all of them."""

    rank, size = 0, 1

    def __init__(self):
        super().__init__(None)

    def Barrier(self):
        pass

    def allgather(self, value):
        return [value]

    def Irecv(self, received, whence):
        return Done()

    Isend = Irecv

    def Ibarrier(self):
        return Done()

    def Split_type(self, kind):
        return self


def row(case=None, links="slow", predicted=1.0, **measured):
    return LinksRow(
        CaseOnLinks(links, case or LinksCase("all_reduce", LARGE)),
        "over 4",
        800,
        {"auto": predicted},
        {"auto": 1.2, **measured},
    )


def test_the_cases():
    names = [case.name for case in all_cases()]
    assert len(names) == len(set(names)) == 82 and sum(name.startswith("resharding") for name in names) == 60
    assert {case.operation for case in all_cases() if case.number < 0} >= {"all_gather", "shift", "halo", "program"}
    assert {case.name for case in quick_cases()} < set(names)
    for ranks in (2, 3, 4, 6):
        for case in all_cases():
            if case.number >= 0:
                source, target = random_pair(case, ranks)
                assert source != target and source.grid.size == target.grid.size == ranks
                assert (source, target) == random_pair(case, ranks), "the same on all processes"


def test_other_seeds_draw_other_reshardings():
    first, second = ([random_pair(case, 4) for case in Drawn(seed).all_cases()] for seed in (1, 2))
    usual = [random_pair(case, 4) for case in all_cases() if case.number >= 0]
    assert len(first) == len(second) == len(usual) == 60 and first != second != usual != first
    sizes = [[case.size for case in cases if case.number >= 0] for cases in (all_cases(), Drawn(1).all_cases())]
    assert sizes[0] == sizes[1] and {case.name for case in Drawn(1).quick_cases()} < {
        case.name for case in Drawn(1).all_cases()
    }


@pytest.mark.parametrize("ranks, nodes", [(4, (0, 0, 2, 2)), (3, (0, 1, 0)), (2, (0, 0))])
def test_trials_run(ranks, nodes):
    """Every operation, halos and the program, and some reshardings, by each strategy that differs."""

    def body():
        grid = sg.init_grid((-1,))
        grid.process.nodes = nodes
        links = LinkModel(nodes=nodes, cable_bandwidth=1e9)
        cases = [case for case in all_cases() if case.number < 0 or (case.number < 6 and case.size == LARGE)]
        found = []
        for case in cases:
            trial = trial_of(case, grid, 24, links)
            assert trial.calls.keys() == trial.predicted.keys() and "auto" in trial.calls
            assert all(seconds >= 0 for seconds in trial.predicted.values()) and trial.n_bytes > 0
            for call in trial.calls.values():
                call()
            found.append(trial.predicted)
        return found

    results = sg.run_spmd(body, ranks=ranks)
    assert all(each == results[0] for each in results), "all processes predict alike"


def test_a_row_in_full():
    def body():
        grid = sg.init_grid((-1,))
        grid.process.nodes = (0, 0, 2)
        links = LinkModel(nodes=(0, 0, 2), cable_bandwidth=1e9)
        case = CaseOnLinks("here", LinksCase("all_reduce", SMALL))
        found = measure._measure_row(case, grid, Ranks(grid), 5, links, lambda: 1.3)
        assert found.change == 1.3 and found.disturbed
        return found.case.name, found.n_bytes, found.measured["auto"] > 0, found.predicted["auto"]

    first, *others = sg.run_spmd(body, ranks=3)
    assert first[:3] == ("here: all_reduce, small", 24 * 24 * 8, True)
    assert all(each == first for each in others)


def test_the_less_disturbed_measurement_counts():
    """All of it: the model of its moment, and all ways, whose rounds take turns."""
    slow, fast = row(predicted=1.5, auto=1.5, direct=2.0), row(auto=1.4, direct=1.0)
    assert less_disturbed(slow, fast) == less_disturbed(fast, slow) == fast
    moved = replace(fast, change=1.2)
    assert moved.disturbed and less_disturbed(slow, moved) == less_disturbed(moved, slow) == slow
    assert summary([slow, moved])[0] == "WARNING: other work on the machine disturbed 1 of 2 rows; measure again"
    assert "(disturbed)" in table().line(moved) and "(disturbed)" not in table().line(slow)


def test_a_model_is_measured_anew_once_the_pace_has_changed():
    paces = map(Pace._make, [(1, 1, 1), (1, 1, 1), (1.1, 1, 1), (1, 0.8, 1), (1, 0.8, 1), (1, 0.79, 1), (2, 2, 1)])
    numbers = iter(range(10))
    moments = Moments(lambda: next(paces), lambda: LinkModel(node_latency=next(numbers)), most=2)
    assert moments.links().node_latency == 0
    assert moments.change() == 1.1 and moments.links().node_latency == 0
    assert moments.change() == 1.25 and moments.links().node_latency == 1, "copies are faster"
    assert moments.change() == pytest.approx(0.8 / 0.79) and moments.links().node_latency == 1
    assert moments.change() == 2 / 0.8 and moments.links().node_latency == 0, "no more models: the nearest pace"


def test_a_model_is_measured_anew_if_the_pace_changes_meanwhile():
    paces, numbers = map(Pace._make, [(1, 2, 1), (1, 1, 1), (1.1, 1, 1), (2, 1, 1), (1, 1, 1)]), iter(range(10))
    moments = Moments(lambda: next(paces), lambda: LinkModel(node_latency=next(numbers)), most=3)
    assert moments.links().node_latency == 1 and len(moments.models) == 2, "the first was measured as copies sped up"
    assert moments.change() == 2 / 1.1 and moments.links().node_latency == 2, "the last that may be measured"


def test_a_model_that_was_measured_at_the_pace_of_now_is_taken_again():
    paces, numbers = (
        map(Pace._make, [(1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 1, 1), (1.1, 1, 1), (9, 1, 1)]),
        iter(range(10)),
    )
    moments = Moments(lambda: next(paces), lambda: LinkModel(node_latency=next(numbers)), most=2)
    assert moments.links().node_latency == 0
    assert moments.change() == 2 and moments.links().node_latency == 1
    assert moments.change() == 2 / 1.1 and moments.links().node_latency == 0 and len(moments.models) == 2
    assert moments.change() == 9 and moments.links().node_latency == 1, "the nearest of those that there may be"


def test_the_pace_of_ranks_that_sleep():
    pace = PaceOf(Alone(), 1 << 20)
    first, again = pace.now(), pace.now()
    assert min(first) > 0 and first.change(again) >= 1
    assert Pace(1, 1, 1).change(Pace(1, 1, 2)) == Pace(1, 1, 2).change(Pace(1, 1, 1)) == 2, "a slower barrier"


def test_ways_that_run_alike_are_one():
    """An exchange by another name between the same layouts moves the same boxes."""
    links = LinkModel(node_size=2, cable_bandwidth=1e9)
    cases = [case for case in all_cases() if case.number >= 0][:30]

    def body():
        grid = sg.init_grid((-1,))
        grid.process.nodes = (0, 0, 2, 2)
        found = []
        for case in cases:
            source, target = random_pair(case, 4)
            names = [*trial_of(case, grid, 24, links).calls]
            plans = [sg.plan_reshard(source, target, (24, 24), "f8", name, links=links) for name in names]
            found.append([[(step.source, step.target) for step in plan.run_steps] for plan in plans])
        return found

    ways = sg.run_spmd(body, ranks=4)[0]
    assert {len(each) for each in ways} >= {1, 2}
    for each in ways:
        assert all(one not in each[:i] for i, one in enumerate(each)), "no all_gather is native between few nodes"


def test_verdicts():
    rows = [row(predicted=1.0), row(LinksCase("reshard", LARGE, 3), predicted=0.5, direct=1.0)]
    rows += [row(LinksCase("shift", SMALL), predicted=2.0)]
    lines = summary(rows)
    assert [line.split()[0] for line in lines] == ["missed", "met", "missed"]
    assert "large: measured within 1.25x of the model: 1 of 2 rows; most 2.40x (slow: resharding 3, large)" in lines[0]
    assert "small: measured within 2x of the model: 1 of 1 rows; most 1.67x" in lines[1]
    assert "the best measured: 0 of 1 rows; most 1.20x" in lines[2]
    assert len(summary([*rows, row(links="fast")])) == 6 and summary([row(links="fast")])[2].startswith("not measured")
    assert "1.20x" in table().line(rows[0])


def test_rows_of_other_links_stay(tmp_path):
    rows = [row(), row(LinksCase("reshard", LARGE, 3), direct=1.0)]
    path = tmp_path / "links.json"
    write_files(Outputs(str(path)), {"ranks": 4}, "", table(), rows, summary(rows), {"models": {"slow": "m"}})
    kept = [LinksRow.from_dict(each) for each in json.loads(path.read_text())["rows"]]
    assert kept == rows and kept[0] != replace(rows[0], n_bytes=1)
