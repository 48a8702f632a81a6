"""The programs of the examples, traced and by hand: numpy's results, and no more bytes than by hand."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import spmd_grid as sg

EXAMPLES = Path(__file__).parents[2] / "mpirun_examples" / "programs"
NAMES = ["mlp", "attention", "cg", "kmeans", "pencil_fft"]


@pytest.fixture(autouse=True)
def in_reach(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def grid_of(name, ranks):
    return sg.init_grid(import_module("side_by_side").near_square(ranks) if name == "pencil_fft" else (ranks,))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_both_are_numpys(spmd, name, ranks, capsys):
    module = import_module(name)

    def body():
        grid = grid_of(name, ranks)
        return module.check(name, module.problem(grid), grid, module.TOLERANCE)

    assert spmd(ranks, body) == [0] * ranks


def received(grid, call):
    """Bytes that go to this process while ``call`` runs, by the engine's records.  Collective."""
    recorder, sent = grid.process.recorder, np.zeros(grid.size, np.int64)

    def note(record, moved):
        for movement in moved:
            for process, n_bytes in movement.traffic().sent.items():
                sent[process] += n_bytes * (process != grid.rank)

    before, recorder.on_end = recorder.on_end, note
    try:
        call()
    finally:
        recorder.on_end = before
    return int(sg.all_reduce(sent, grid)[grid.rank])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_traced_program_moves_no_more_bytes(name, ranks):
    module = import_module(name)

    def body():
        grid = grid_of(name, ranks)
        problem = module.problem(grid)
        part = problem.partition(grid)
        arrays = [sg.from_global(x, s, grid) for x, s in zip(problem.arrays, part.in_shardings)]
        call = problem.by_hand(grid, *[x.local for x in arrays])
        part.run(grid, *arrays)
        stated = sum(each.bytes for each in part.collectives())
        return stated, received(grid, lambda: part.run(grid, *arrays)), received(grid, call)

    found = sg.run_spmd(body, ranks=ranks)
    assert all(0 < traced <= by_hand for _, traced, by_hand in found), found
    if ranks != 3:  # which does not divide the extents: the model counts whole rows, the engine cells
        assert found[0][0] <= max(by_hand for *_, by_hand in found), found
