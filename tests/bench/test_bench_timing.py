"""Contenders take turns, alike on all ranks; and the kernels that the halo benchmark times."""

import time

import numpy as np
import pytest
from support.patience import at_growing_scales

from spmd_grid.bench.common.rows import figures_of
from spmd_grid.bench.common.timing import Alone, Times, calls_per_batch, measure, measure_once


def contenders(log, **seconds):
    def batch(name):
        def run(n):
            log.append(name)
            time.sleep(n * seconds[name])

        return run

    return {name: batch(name) for name in seconds}


@at_growing_scales(1, 10, 50)
def test_in_turns(scale):
    log, seconds = [], {"a": 1e-4 * scale, "b": 3e-4 * scale, "c": 1e-7}
    times = measure(Alone(), contenders(log, **seconds), rounds=8, batch_seconds=1e-3 * scale)
    assert all(len(times.seconds[name]) == 8 for name in "abc")
    turns = np.array(log[-24:]).reshape(8, 3)
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert len({tuple(turn) for turn in turns}) > 2
    assert times.median("a") >= seconds["a"] and times.median("b") >= seconds["b"] > times.median("c")
    assert times.percentile("a", 10) <= times.median("a") <= times.percentile("a", 90)
    assert times.calls["c"] > times.calls["a"] > times.calls["b"] >= 1
    again = []
    measure(Alone(), contenders(again, **seconds), rounds=8, batch_seconds=1e-3 * scale)
    assert again[-24:] == log[-24:]  # the order that every rank draws


def test_as_many_calls_of_all():
    times = measure(Alone(), contenders([], a=1e-4, b=1e-3), rounds=2, batch_seconds=2e-3, alike=True)
    assert times.calls["a"] == times.calls["b"] > 2


def test_time_is_that_of_the_slowest_rank():
    class SlowPartner(Alone):
        def allgather(self, value):
            return [value, value + 1.0] if isinstance(value, np.ndarray) else [value]

    assert 1 < measure(SlowPartner(), contenders([], a=1e-6), rounds=2).median("a") < 1.9


def test_fewer_rounds_where_they_take_too_long():
    times = measure(Alone(), contenders([], a=1e-3), rounds=1000, batch_seconds=2e-3, at_most_seconds=0.03)
    assert 5 <= len(times.seconds["a"]) < 30


def test_figures_of_rounds():
    times = Times({"a": np.arange(1, 12) * 1e-6, "base": np.full(11, 2e-6)}, {"a": 3, "base": 9})
    figure = figures_of(times, {"a": "base"})["a"]
    assert figure[:4] == pytest.approx((4, 0, 8, 6)) and figure.quartiles == pytest.approx((1.5, 6.5))


def test_at_least_one_call():
    assert calls_per_batch(Alone(), contenders([], a=2e-3)["a"], 1e-4) == 1


def test_jobs_of_one_call():
    log = []
    jobs = {"a": lambda: log.append("a"), "b": lambda: time.sleep(1e-3)}
    times = measure_once(Alone(), jobs, 4, lambda name, i: log.append((name, i)))
    assert log.count("a") == 5 and log.index(("a", 2)) + 1 == log.index("a", log.index(("a", 2)))
    assert len(times.seconds["b"]) == 4 and times.median("b") >= 1e-3


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("n_fields", [1, 3])
def test_new_faces_and_their_check(dim, width, n_fields):
    from spmd_grid.bench.halo.kernels import rewrite_faces, rewriting_loop, three_sides, wrong_halos

    fields = [np.full((9, 10, 8), -1.0) for _ in range(n_fields)]
    views = three_sides(fields, dim)
    assert all(np.shares_memory(view, field) for view, field in zip(views, fields))
    rewrite_faces(n_fields)(views, width, 17)
    moved = [np.moveaxis(field, dim, 0) for field in fields]
    faces = np.array([[each[width : 2 * width], each[-2 * width : -width]] for each in moved])
    assert all(np.unique(faces[f, side]).size == 1 for f in range(n_fields) for side in (0, 1))
    assert np.unique(faces).size == 2 * n_fields
    untouched = [(each[:width], each[2 * width : -2 * width], each[-width:]) for each in moved]
    assert all((part == -1).all() for parts in untouched for part in parts)
    cells = faces.size
    assert wrong_halos(views, width, 17, 17) == cells
    for each in moved:
        each[:width], each[-width:] = each[-2 * width : -width].copy(), each[width : 2 * width].copy()
    assert wrong_halos(views, width, 17, 17) == 0
    assert wrong_halos(views, width, 16, 17) == wrong_halos(views, width, 17, 18) == cells // 2
    rewriting_loop(n_fields)(views, width, 15, 4)  # 15, 16, 17, 18
    for each in moved:
        each[:width], each[-width:] = each[-2 * width : -width].copy(), each[width : 2 * width].copy()
    assert wrong_halos(views, width, 18, 18) == 0
