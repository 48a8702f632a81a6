"""Runs of partitioned programs: their memory, what they refuse, errors in the middle, and what an operation costs."""

import sys
import tracemalloc

import numpy as np
import pytest
from support.sharded_arrays import on_grid, refused

import spmd_grid as sg

LARGE = 40, 30  # blocks of more than 4 KiB, which are kept from run to run


def written_over(a, b):
    c = a + b
    d = c * 2
    e = np.exp(d / 400) - c  # c is still needed where d is made
    return e, np.sum(c, axis=0) + e


def views(a, b):
    c = a - b
    d = c.T
    e = np.negative(c)  # d is a view of c, and read below
    return d, e[None], np.reshape(c, (-1,)), c, c


def gathered_in_between(a, b):
    c = a @ b.T
    d = np.maximum(c, 0) @ a
    e = np.fft.fft(d, axis=0).real + d
    return e.astype("f4"), e - np.mean(e, axis=0), a


def numbers(a, b):
    total = np.sum(a * b)
    return total, a * total, np.max(b) - total, np.divmod(a, 3)[1]


FUNCTIONS = [written_over, views, gathered_in_between, numbers]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("ranks", "shape"), [(1, (1,)), (3, (3,)), (4, (2, 2))])
def test_results_stay_what_they_are(spmd, function, ranks, shape):
    """Arguments are never changed, and results of a run not by the next one, nor by each other."""
    x, y = (np.random.default_rng(i).standard_normal(LARGE) for i in range(2))

    def check(grid):
        program = sg.trace(function, sg.ArraySpec(LARGE), sg.ArraySpec(LARGE))
        axes = [[0], [1]] if grid.ndim == 2 else [[0]]
        part = sg.partition(program, grid, [sg.Sharding(grid, axes), sg.Sharding(grid, axes[::-1])])
        a, b, c = (
            sg.from_global(whole, s, grid)
            for whole, s in zip((x, y, 2 * x), (*part.in_shardings, part.in_shardings[0]))
        )
        first = part.run(grid, a, b)
        second = part.run(grid, c, b)
        for found, want in [*zip(first, function(x, y)), *zip(second, function(2 * x, y))]:
            got = found.to_global() if isinstance(found, sg.ShardedArray) else found
            assert np.shape(got) == np.shape(want) and np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-5 if np.asarray(want).dtype == "f4" else 1e-10, atol=1e-9)
        for given, whole in ((a, x), (b, y), (c, 2 * x)):
            assert np.array_equal(given.to_global(), whole)
        arrays = [each.stored for each in (*first, *second, a, b, c) if isinstance(each, sg.ShardedArray)]
        assert not any(np.shares_memory(one, other) for i, one in enumerate(arrays) for other in arrays[:i])

    on_grid(spmd, ranks, check, shape)


def test_local_and_whole_arguments(spmd):
    x = np.arange(35.0).reshape(7, 5)

    def check(grid):
        program = sg.trace(lambda a: a - np.mean(a, axis=0), sg.ArraySpec(x.shape))
        rows = sg.Sharding(grid, [[0]])
        want = (x - x.mean(axis=0))[rows.core_slices(x.shape, grid.coords)]
        for args, given in (("local", x[rows.core_slices(x.shape, grid.coords)]), ("global", x)):
            found = sg.partition(program, grid, rows, rows, args=args).run(grid, given)
            np.testing.assert_allclose(found, want)

    on_grid(spmd, 3, check)


# -- refusals and errors -------------------------------------------------------------------------------------------


def model(a):
    h = np.divide(1, a)
    return h - np.sum(h, axis=0)


def part_of(grid, axes):
    return sg.partition(sg.trace(model, sg.ArraySpec((8, 8))), grid, sg.Sharding(grid, axes))


# The first collective joins all processes, or only those of a column.
@pytest.mark.parametrize("axes", [[[0, 1]], [[0], [1]]])
def test_an_array_that_one_process_gives_wrongly(spmd, axes):
    def make(grid):
        local = np.ones(part_of(grid, axes).in_shardings[0].shard_shape((8, 8), grid.coords))
        part_of(grid, axes).run(grid, local[1:] if grid.rank == 1 else local)

    name, text = refused(spmd, make)
    assert name == "ShapeError" and "model: argument 0 (%a) has shape" in text and "rank 1" in text


@pytest.mark.parametrize(
    ("array", "kind", "text"),
    [
        (lambda grid: sg.zeros((8, 8), sg.Sharding(grid, [[], [0]]), grid), "ShardingError", "reshard it"),
        (lambda grid: sg.zeros((8, 9), sg.Sharding(grid, [[0]]), grid), "ShapeError", "was traced for (8, 8)"),
        (lambda grid: sg.zeros((8, 8), sg.Sharding(grid, [[0]]), grid, "f4"), "DTypeError", "traced for float64"),
        (lambda grid: [[1], [2, 3]], "DTypeError", "which is no array"),
    ],
)
def test_arguments_that_all_give_wrongly(spmd, array, kind, text):
    name, found = refused(spmd, lambda grid: part_of(grid, [[0]]).run(grid, array(grid)))
    assert name == kind and "model: argument 0 (%a)" in found and text in found


def test_a_wrong_number_of_arrays_and_another_grid(spmd):
    assert "the program has 1 arguments" in refused(spmd, lambda grid: part_of(grid, [[0]]).run(grid))[1]
    assert (
        "is partitioned for"
        in refused(spmd, lambda grid: part_of(sg.init_grid((4,)), [[0]]).run(grid, np.ones((2, 8))))[1]
    )


def test_an_error_on_one_process_names_the_line_and_ends_the_others():
    """Simulated, since the processes cannot go on."""

    def body():
        grid = sg.init_grid((3,))
        part = part_of(grid, [[0]])
        given = sg.from_function(lambda i, j: i + j - 7.0 * (i > 7), (8, 8), part.in_shardings[0], grid)
        if grid.rank == 2:
            given.core[0, 0] = 0
        with np.errstate(divide="raise" if grid.rank == 2 else "ignore"):
            with pytest.raises((FloatingPointError, sg.CutOffError)) as caught:
                part.run(grid, given)
        with pytest.raises(sg.CutOffError):
            sg.all_reduce(1, grid)
        return type(caught.value).__name__, str(caught.value), getattr(caught.value, "__notes__", [])

    *others, (name, _, notes) = sg.run_spmd(body, ranks=3)
    line = model.__code__.co_firstlineno + 1
    assert name == "FloatingPointError" and notes == [f"in divide at test_running.py:{line} of program model"]
    for name, text, _ in others:
        assert name == "CutOffError" and f"divide at test_running.py:{line} of program model was cut off by" in text


def test_an_error_behind_the_last_communication_leaves_the_others_alone(spmd):
    def check(grid):
        program = sg.trace(lambda a: 1 / (a - np.max(a)), sg.ArraySpec((9,)))
        part = sg.partition(program, grid, sg.Sharding(grid, [[0]]))
        given = sg.from_function(lambda i: 1.0 * i, (9,), part.in_shardings[0], grid)
        with np.errstate(divide="raise"):
            try:
                part.run(grid, given)
                failed = 0
            except FloatingPointError as error:
                failed = 1
                assert "in divide at test_running.py" in error.__notes__[0]
        assert sg.all_reduce(failed, grid) == 1

    on_grid(spmd, 3, check)


# -- cost ----------------------------------------------------------------------------------------------------------


def chain(x, w):
    for _ in range(10):
        x = np.tanh(x @ w)
        x = (x + w) * 0.5
        x = x - np.sum(x, axis=0)
    return x


def events(function):
    """The calls of functions, Python's and others, that a call makes."""
    count = [0]

    def profile(frame, event, arg):
        count[0] += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count[0]


def test_a_run_calls_little_more_than_numpy():
    """A limit that holds on a busy machine; the benchmark measures the time."""

    def body():
        grid = sg.init_grid((1,))
        x, w = np.ones((8, 8)), np.eye(8)
        program = sg.trace(chain, sg.ArraySpec(x.shape), sg.ArraySpec(w.shape))
        part = sg.partition(program, grid, sg.Sharding(grid, [[0]]))
        part.run(grid, x, w)
        return events(lambda: part.run(grid, x, w)), events(lambda: chain(x, w))

    (ours, numpys), *_ = sg.run_spmd(body, ranks=1)
    assert ours <= 1.5 * numpys + 30, (ours, numpys)


def test_transforms_are_written_to_kept_arrays():
    """Between two runs, a chain of transforms along whole dimensions makes no array but its result."""
    shape = 256, 200

    def chain(x, y):
        return np.fft.ifft(np.fft.fft(np.fft.fft(x, axis=1), axis=0), axis=1) * y

    def body():
        grid = sg.init_grid((1,))
        program = sg.trace(chain, *[sg.ArraySpec(shape, "c16")] * 2)
        part = sg.partition(program, grid, [None, None])
        x, y = (np.random.default_rng(i).standard_normal((*shape, 2)).view("c16")[..., 0] for i in range(2))
        given = [sg.from_global(each, sg.Sharding(grid, []), grid) for each in (x, y)]
        part.run(grid, *given)
        tracemalloc.start()
        try:
            found = part.run(grid, *given)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        np.testing.assert_allclose(found.to_global(), chain(x, y))
        return peak / x.nbytes

    (peak,) = sg.run_spmd(body, ranks=1)
    assert peak < 1.9, peak
