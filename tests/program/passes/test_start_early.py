"""Moves started early and waited for late: where that is of use, with their memory counted, and ended after errors."""

import numpy as np
import pytest
from support.program.runner import with_schedule

import spmd_grid as sg
from spmd_grid.program.partition.memory import local_bytes, peak_bytes
from spmd_grid.program.partition.steps import Move, Wait
from spmd_grid.program.passes import start_early

THREE = sg.Grid((3,))
ROWS = sg.Sharding(THREE, [[0]])


def layers(x, w1, w2):
    h = np.tanh(x @ w1)
    return np.tanh(h @ w2)


def in_layers(n=700, **options):
    """Both weights are cut among all devices, and gathered where they are used."""
    specs = [sg.ArraySpec((n, n)) for _ in range(3)]
    return sg.partition(sg.trace(layers, *specs), THREE, [ROWS] * 3, ROWS, **options)


def shown(schedule):
    """The steps, in short."""
    words = []
    for step in schedule.steps:
        if isinstance(step, Wait):
            words.append(f"wait {step.move.target.value.name}")
        elif isinstance(step, Move):
            words.append(f"{'start' if step.is_started else 'move'} {step.target.value.name}")
        else:
            words.append(step.name)
    return words


def test_a_move_is_started_where_its_operand_is_ready_and_waited_for_at_its_first_use():
    part = in_layers()
    assert shown(part.schedule) == ["move w1", "start w2", "matmul", "tanh", "wait w2", "matmul", "tanh"]
    assert shown(in_layers(16).schedule) == ["move w1", "matmul", "tanh", "move w2", "matmul", "tanh"]  # too small
    assert [each.name for each in part.collectives()] == ["all_gather", "all_gather"]


def test_it_is_explained_and_costs_less():
    part = in_layers()
    whole = with_schedule(part, part.stages["fuse collectives"])
    text = part.explain("w2")
    assert "started early, waited for late: computation hides" in text and "started early" not in part.explain("w1")
    hidden = whole.cost().seconds - part.cost().seconds
    (started,) = [step for step in part.schedule.steps if isinstance(step, Move) and step.is_started]
    assert hidden == pytest.approx(started.plan.seconds)  # the product before takes longer
    assert part.cost()[:2] == whole.cost()[:2]
    assert "call @spmd_grid.wait(%" in part.text("optimised") and "wait for(%w2)" in part.picture()


def test_started_moves_count_in_peak_memory():
    """While the first product is computed, w2 is under way: its array is there, and its messages."""
    part = in_layers()
    before, after = peak_bytes(part.stages["fuse collectives"]), peak_bytes(part.schedule)
    (move,) = [step for step in part.schedule.steps if isinstance(step, Move) and step.is_started]
    shard, whole = local_bytes(move.source), local_bytes(move.target)
    messages = move.plan.totals().peak - shard - whole
    assert after == 3 * shard + 2 * whole + messages + shard  # the arguments, both weights, and the block of h
    assert before < after <= 1.5 * before


def test_what_would_hold_too_much_memory_for_long_is_started_later(monkeypatch):
    monkeypatch.setattr(start_early, "_MOST_MEMORY", 1.01)

    def late(x, y, w):
        total = (np.exp(x) * np.sin(x)).sum()
        z = np.tanh(y @ y)
        return np.tanh(z * total) @ w

    program = sg.trace(late, sg.ArraySpec((2000, 2000)), sg.ArraySpec((600, 600)), sg.ArraySpec((600, 600)))
    part = sg.partition(program, THREE, [sg.Sharding(THREE, []), ROWS, ROWS], ROWS)
    words = shown(part.schedule)
    assert words.index("sum") < words.index("start w") < words.index("tanh") < words.index("wait w")
    assert peak_bytes(part.schedule) <= 1.01 * peak_bytes(part.stages["fuse collectives"])


def smooth(u, w, x):
    flux = u[2:] - 2 * u[1:-1] + u[:-2]
    return flux * 0.5 + w[1:-1], x.sum(axis=0) * 2, np.exp(x).max()


def everything(part):
    return with_schedule(part, start_early.started_early(part.schedule, -1))


@pytest.fixture(params=["auto", "message"])
def path(request):
    """Messages are under way while others are; cells in memory that all share are copied in the wait."""
    with sg.forced_path(request.param):
        yield request.param


@pytest.mark.parametrize("ranks", [2, 3])
def test_halos_and_collectives_that_are_under_way_together(spmd, ranks, path):
    grid = sg.Grid((ranks,))
    rows = sg.Sharding(grid, [[0]])
    u, w, x = np.arange(84.0).reshape(12, 7), np.arange(84.0).reshape(12, 7) % 5, np.arange(26.0).reshape(13, 2) / 9
    program = sg.trace(smooth, u, w, x)
    part = everything(sg.partition(program, grid, rows, [rows, sg.Sharding(grid, []), None]))
    assert sum(each.startswith("start") for each in shown(part.schedule)) >= 3

    def body():
        devices = sg.init_grid((ranks,))
        given = [sg.from_global(each, rows, devices) for each in (u, w, x)]
        equal = []
        for _ in range(3):  # what a run has started is over when it ends
            found = part.run(devices, *given)
            for one, other in zip(found, smooth(u, w, x), strict=True):
                equal.append(np.allclose(one.to_global() if isinstance(one, sg.ShardedArray) else one, other))
        return equal

    assert all(map(all, spmd(ranks, body)))


def test_a_run_that_fails_alike_ends_what_it_has_started(spmd, path):
    """Another run finds all plans free."""
    fails = []

    def body(block, grid):
        if fails and type(block) is np.ndarray:
            raise sg.ShapeError("not today")
        return sg.all_reduce(block, grid, [0])

    def mixed(x, w):
        y = sg.manual(body, [ROWS], [sg.Sharding(THREE, [])], [0])(x)[0]
        return y.sum() * 0 + x.sum(axis=0) @ w

    part = everything(sg.partition(sg.trace(mixed, sg.ArraySpec((6, 9)), sg.ArraySpec((9, 4))), THREE, [ROWS, ROWS]))
    assert shown(part.schedule)[:2] == ["start x", "manual"]
    x, w = np.arange(54.0).reshape(6, 9), np.arange(36.0).reshape(9, 4)

    def run():
        devices = sg.init_grid((3,))
        given = [sg.from_global(each, ROWS, devices) for each in (x, w)]
        fails.append(None)
        sg.all_reduce(0, devices)
        with pytest.raises(sg.ShapeError, match="not today"):
            part.run(devices, *given)
        sg.all_reduce(0, devices)
        fails.clear()
        sg.all_reduce(0, devices)
        found = part.run(devices, *given)
        return np.allclose(found.to_global() if isinstance(found, sg.ShardedArray) else found, x.sum(axis=0) @ w)

    assert spmd(3, run) == [True] * 3
