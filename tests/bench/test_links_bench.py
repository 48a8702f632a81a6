"""The benchmark of the links: rows in full on pretended nodes, honest verdicts, and files that keep other links."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.common.timing import Alone, Times
from spmd_grid.bench.links import measure
from spmd_grid.bench.links.calls import Trial, trial_of
from spmd_grid.bench.links.cases import LARGE, SMALL, Drawn, LinksCase, all_cases, quick_cases, random_pair
from spmd_grid.bench.links.report import LinksRow, summary, table
from spmd_grid.bench.links.undisturbed import undisturbed
from spmd_grid.links.model import LinkModel


class Ranks:
    """The operations that timing needs, of simulated ranks."""

    def __init__(self, grid):
        self._grid = grid

    def Barrier(self):
        sg.all_reduce(1, self._grid, [0])

    def allgather(self, value):
        return sg.all_gather(np.array([value]), self._grid, [0], 0).tolist()


class Whole(Alone):
    """The communicator of a rank that is all of them."""

    rank, size = 0, 1


def row(case=None, links="slow", predicted=1.0, **measured):
    return LinksRow(
        CaseOnLinks(links, case or LinksCase("all_reduce", LARGE)),
        "over 4",
        800,
        {"auto": predicted},
        {"auto": 1.2, **measured},
        [1.2, 1.5],
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
        clock = measure._Clock(grid, Ranks(grid), 5, 1 << 20)
        clock.measure(case.case, links)
        found = clock.row(case, links)
        assert len(found.turns) == 3
        return found.case.name, found.n_bytes, found.measured["auto"] > 0, found.predicted["auto"]

    first, *others = sg.run_spmd(body, ranks=3)
    assert first[:3] == ("here: all_reduce, small", 24 * 24 * 8, True)
    assert all(each == first for each in others)


def test_the_second_fastest_turn_counts(monkeypatch):
    """Of each way by itself; ways that no turn has measured are measured for the row, three times."""
    quartiles = iter([3.0, 1.5, 2.0, 9.0, 8.0, 7.0])

    def timed(comm, batches, *args, **kwargs):
        found = next(quartiles)
        return Times({name: np.array([found, found, 9, 9]) for name in batches}, {})

    trials = {
        "first": Trial("direct", 8, {"auto": len, "basis": len}, {"auto": 1.0, "basis": 2.0}, {"auto": 1, "basis": 2}),
        "last": Trial("direct", 8, {"auto": len}, {"auto": 1.6}, {"auto": 1}),
        "other": Trial("chain", 8, {"auto": len}, {"auto": 1.0}, {"auto": 3}),
    }
    monkeypatch.setattr(measure, "measure", timed)
    monkeypatch.setattr(measure, "trial_of", lambda case, grid, side, links: trials[links])
    clock, case = measure._Clock(None, None, 5, 1 << 20), LinksCase("reshard", LARGE, 3)
    for _ in range(3):
        clock.measure(case, "first")
    found = clock.row(CaseOnLinks("here", case), "last")
    assert (found.measured, found.predicted, found.turns) == ({"auto": 2.0}, {"auto": 1.6}, [3.0, 1.5, 2.0])
    assert found.off == 1.25 and found.over_best == 1 and found.over_fastest == 2 / 1.5
    assert "1.33x" in table().line(found)
    found = clock.row(CaseOnLinks("here", case), "other")
    assert found.measured == {"auto": 8.0} and found.turns == [9.0, 8.0, 7.0], "measured at last"


def test_each_turn_has_a_model_and_the_file_keeps_those_of_other_links(monkeypatch, tmp_path):
    cases = [LinksCase("all_gather", SMALL), LinksCase("reshard", LARGE, 3)]
    said: list[str] = []
    session = SimpleNamespace(comm=Whole(), say=lambda *lines: said.extend(lines), setting={"ranks": 1})
    monkeypatch.setattr(measure, "Session", lambda: session)
    monkeypatch.setattr(measure, "wait_asleep", lambda comm, nap: None)
    monkeypatch.setattr(measure, "setting_text", lambda setting: "here")
    monkeypatch.setattr(measure, "_TURNS", 3)
    outputs = Outputs(str(tmp_path / "links.json"))
    for name in ("slow", "fast"):
        sg.run_spmd(lambda name=name: measure.run_bench(cases, 5, outputs, name), ranks=1)
    found = json.loads((tmp_path / "links.json").read_text())
    assert [each["row"] for each in found["rows"]] == [f"{n}: {case.name}" for n in ("slow", "fast") for case in cases]
    assert {name: len(texts) for name, texts in found["models"].items()} == {"slow": 3, "fast": 3}
    assert all(
        each["measured"]["auto"] == sorted(each["turns"])[1] and len(each["turns"]) == 3 for each in found["rows"]
    )
    assert sum(line.startswith("LinkModel(") for line in said) == 2, "that of the undisturbed moments is told"


def test_figures_of_undisturbed_moments():
    """Of each kind by itself: the second thread of a core may have been busy while any model was measured."""
    one = LinkModel(
        node_latency=2e-6,
        network_latency=1e-4,
        wake_seconds=5e-5,
        call_seconds=1e-5,
        cable_bandwidth=1e9,
        one_way=1.5,
        copies=[(1000, 4e9), (2000, 3e9)],
        nodes=(0, 0, 1),
    )
    two = replace(one, node_latency=1e-6, network_latency=1.2e-4, wake_seconds=1e-5, copies=[(1000, 3e9), (2000, 2e9)])
    two = replace(two, cable_bandwidth=2e9, call_seconds=3e-5, one_way=1.0)
    chance = replace(
        one, node_latency=0, network_latency=1e-9, wake_seconds=0, call_seconds=0, cable_bandwidth=9e9, one_way=1.25
    )
    found = undisturbed([one, chance, replace(two, copies=[(1000, 9e9), (2000, 9e9)])])
    assert (found.node_latency, found.network_latency, found.call_seconds) == (1e-6, 1e-4, 1e-5)
    assert found.wake_seconds == pytest.approx(3e-5), "from the start of the wait on"
    assert found.cable_bandwidth == 2e9 and found.one_way == 1.25 and found.nodes == one.nodes
    assert found.copies == ((1000, 4e9), (2000, 3e9)) and found.bus_bandwidth is None
    assert undisturbed([one, one]) == undisturbed([one]) and undisturbed([one]).copies == one.copies


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
