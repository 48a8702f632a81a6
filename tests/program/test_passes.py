"""Each pass on a program made for it: what moves before and after; values are the subject of the random programs."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.program.partition.steps import Compute, Move
from spmd_grid.program.passes import PASSES

LOCAL = "all_slice", "mark_partial"
GRID = sg.Grid((2, 3))
A = sg.ArraySpec((12, 6))
NAMES = {name: improve for name, improve, _ in PASSES}


def on(axes, **options):
    return sg.Sharding(GRID, axes, **options)


def planned(function, specs, ins=None, outs=None, **options):
    return sg.partition(sg.trace(function, *specs), GRID, ins, outs, **options)


def moved(part):
    """Every communication, also of those that run as one."""
    steps = [each for step in part.schedule.steps if isinstance(step, Move) for each in step.plan.steps]
    return [(each.kind, each.grid_axes) for each in steps if each.kind not in LOCAL]


def both(function, specs, ins=None, outs=None):
    """The communications before and after the passes."""
    return moved(planned(function, specs, ins, outs, optimise=False)), moved(planned(function, specs, ins, outs))


def names(schedule):
    return [step.name for step in schedule.steps if isinstance(step, Compute)]


# -- moves that compose ----------------------------------------------------------------------------------------------


def product(a, b):
    whole = sg.constrain(a @ b, on([]))
    return sg.constrain(whole, on([[], [0]]), for_users=True)


def test_all_reduce_and_all_slice_are_a_reduce_scatter():
    before, after = both(product, [A, sg.ArraySpec((6, 4))], [on([[], [0]]), None])
    assert before == [("all_reduce", (0,))]
    assert after == [("reduce_scatter", (0,))]


def test_all_reduce_stays_where_it_has_a_second_use():
    def twice(a, b):
        whole = sg.constrain(a @ b, on([]))
        return sg.constrain(whole, on([[], [0]]), for_users=True), whole

    before, after = both(twice, [A, sg.ArraySpec((6, 4))], [on([[], [0]]), None], [None, on([])])
    assert before == after == [("all_reduce", (0,))]


def test_two_all_reduces_are_folded_into_one():
    def folded(a):
        once = sg.constrain(a, on([], partial_axes=[1]), for_users=True)
        return sg.constrain(once, on([]), for_users=True)

    given = [on([], partial_axes=[0, 1])]
    before, after = both(folded, [A], given, [on([])])
    assert [name for name, _ in before] == ["all_reduce", "all_reduce"]
    assert after == [("all_reduce", (0, 1))]
    assert moved(planned(folded, [A], given, [on([])], reproducible=True)) == before


def test_a_sharding_that_is_still_held_is_used_again():
    def back(a):
        whole = sg.constrain(a, on([]), for_users=True)
        return sg.constrain(whole, on([[1]]), for_users=True) * 2

    assert both(back, [A], [on([[1]])]) == ([("all_gather", (1,))], [])


def test_all_gather_of_a_slice_is_the_array_only_where_that_is_known():
    """Both are shardings of one array, held alike; of a partial one, a slice loses what others contribute."""

    def again(a):
        cut = sg.constrain(a, on([[0]]), for_users=True)
        return sg.constrain(cut, on([]), for_users=True) + 1

    assert both(again, [A], [on([])]) == ([("all_gather", (0,))], [])
    before, after = both(again, [A], [on([], partial_axes=[0])])
    assert before == [("reduce_scatter", (0,)), ("all_gather", (0,))]
    assert after == [("all_reduce", (0,))]


# -- re-association --------------------------------------------------------------------------------------------------


def terms(a, b):
    return a.sum(axis=0), b.sum(axis=0)


SUMS = {
    "add": (lambda a, b: np.add(*terms(a, b)), "sum"),
    "subtract": (lambda a, b: np.subtract(*terms(a, b)), "sum"),
    "scaled": (lambda a, b: a.sum(axis=0) / 3 - 2 * b.sum(axis=0), "sum"),
    "negative": (lambda a, b: -a.sum(axis=0) + b.sum(axis=0), "sum"),
    "three": (lambda a, b: a.sum(axis=0) + b.sum(axis=0) + (a * b).sum(axis=0), "sum"),
    "maximum": (lambda a, b: np.maximum(a.max(axis=0, initial=-9), b.max(axis=0, initial=-9)), "max"),
    "minimum": (lambda a, b: np.minimum(a.min(axis=0), b.min(axis=0)), "min"),
    "product": (lambda a, b: a.prod(axis=0) * b.prod(axis=0), "product"),
}


@pytest.mark.parametrize("case", ["add", "subtract", "scaled", "negative", "three"])
@pytest.mark.parametrize(("out", "collective"), [([], "all_reduce"), ([[0]], "reduce_scatter")])
def test_sums_are_combined_once(case, out, collective):
    function, _ = SUMS[case]

    def ending(a, b):  # a later priority: the cut of the arguments comes first
        return sg.constrain(function(a, b), on(out), for_users=True, priority=1)

    assert moved(planned(ending, [A, A], on([[0]]))) == [(collective, (0,))]
    materialised = moved(planned(ending, [A, A], on([[0]]), optimise=False))
    assert len(materialised) > 1
    assert len(moved(planned(ending, [A, A], on([[0]]), reproducible=True))) == len(materialised)


def test_sums_of_sums_are_combined_last():
    """all_reduce(x).sum(axis=0) moves the sums only."""
    function = lambda a, b: np.mean(a @ b, axis=0)  # noqa: E731
    part = planned(function, [A, sg.ArraySpec((6, 4))], [on([[], [0]]), None])
    assert [each.bytes for each in part.collectives()] == [4 * 8]


NOT_LINEAR = {
    "product of two sums": lambda a, b: a.sum(axis=0) * b.sum(axis=0),
    "quotient": lambda a, b: 1 / a.sum(axis=0) + b.sum(axis=0),
    "maximum of sums": lambda a, b: np.maximum(a.sum(axis=0), b.sum(axis=0)),
    "sum of maxima": lambda a, b: a.max(axis=0) + b.max(axis=0),
    "a sum and a maximum": lambda a, b: a.sum(axis=0) + b.max(axis=0),
    "with what is no sum": lambda a, b: (a.sum(axis=0) + 1) + (b.sum(axis=0) + 1),
    "of another dtype": lambda a, b: np.add(a.sum(axis=0), b.sum(axis=0), dtype="f4", casting="unsafe"),
}


@pytest.mark.parametrize("case", NOT_LINEAR)
def test_what_is_not_linear_stays(case):
    before, after = both(NOT_LINEAR[case], [A, A], on([[0]]), on([]))
    assert before == after == [("all_reduce", (0,)), ("all_reduce", (0,))]


def test_sums_over_different_axes_stay():
    before, after = both(lambda a, b: a.sum(axis=0) + b.sum(axis=0), [A, A], [on([[0]]), on([[1]])], on([]))
    assert before == after == [("all_reduce", (0,)), ("all_reduce", (1,))]


def test_re_associated_values(spmd):
    """Of every function above the values, on uneven blocks."""
    functions = [*[function for function, _ in SUMS.values()], *NOT_LINEAR.values()]
    random = np.random.default_rng(5)
    a, b = random.integers(-3, 4, (2, 7, 5)) + 0.5

    def run(function):
        spec = sg.ArraySpec(a.shape)
        return sg.partition(sg.trace(function, spec, spec), sg.Grid((3,)), sg.Sharding(sg.Grid((3,)), [[0]]))

    parts = [run(function) for function in functions]

    def body():
        grid = sg.init_grid((3,))
        found = []
        for part in parts:
            given = [sg.from_global(x, s, grid) for x, s in zip((a, b), part.in_shardings)]
            found.append(part.run(grid, *given).to_global())
        return [np.allclose(x, f(a, b), rtol=1e-6) for x, f in zip(found, functions)]

    assert spmd(3, body) == [[True] * len(functions)] * 3


# -- gathers, duplicates, dead code, halos ---------------------------------------------------------------------------


def test_all_gather_moves_down_and_away():
    def sliced_again(a):
        whole = sg.constrain(a, on([]), for_users=True)
        return sg.constrain(np.tanh(np.exp(whole)), on([[0]]), for_users=True)

    assert both(sliced_again, [A], [on([[0]])]) == ([("all_gather", (0,))], [])


def test_all_gather_moves_behind_a_sum():
    def summed(a):
        return np.exp(sg.constrain(a, on([]), for_users=True)).sum(axis=1)

    found = [
        [each.bytes for each in planned(summed, [A], [on([[0]])], on([]), optimise=optimise).collectives()]
        for optimise in (False, True)
    ]
    assert found == [[6 * 6 * 8], [6 * 8]]


def test_all_gather_stays_before_what_needs_the_dimension_whole():
    def transformed(a):
        return np.fft.fft(sg.constrain(a, on([]), for_users=True), axis=0)

    before, after = both(transformed, [sg.ArraySpec((12,))], [on([[0]])], on([]))
    assert before == after == [("all_gather", (0,))]


def test_common_subexpressions_are_computed_once():
    def same(a, b):
        return np.exp(a) @ b + 2.0, np.exp(a) @ b + 2.0, np.exp(a) @ b + 2, np.exp(b)

    part = planned(same, [A, sg.ArraySpec((6, 4))], [on([[], [0]]), None])
    assert sorted(names(part.schedule)) == ["add", "add", "exp", "exp", "matmul"]
    assert moved(part) == [("all_reduce", (0,))]


def test_different_arguments_are_no_common_subexpressions():
    def others(a):
        return (
            a.sum(axis=0),
            a.sum(axis=1),
            a + 0.0,
            a + -0.0,
            a[1:],
            a[2:],
            np.where(a > 0, a, 0),
            np.where(a > 0, 0, a),
        )

    found = names(planned(others, [A]).schedule)
    assert {each: found.count(each) for each in set(found)} == {
        "sum": 2,
        "add": 2,
        "select": 2,
        "where": 2,
        "greater": 1,
    }


def test_what_nothing_needs_is_not_computed():
    def dead(a, b):
        (a @ b).sum()
        return np.exp(a)

    part = planned(dead, [A, sg.ArraySpec((6, 4))], [on([[], [0]]), None])
    assert names(part.schedule) == ["exp"]
    assert part.collectives() == []


def test_passes_are_pure_functions():
    """A pass leaves the schedule that it is given as it was."""
    part = planned(product, [A, sg.ArraySpec((6, 4))], [on([[], [0]]), None], optimise=False)
    steps = part.schedule.steps
    for improve in NAMES.values():
        improve(part.schedule)
    assert part.schedule.steps is steps
    assert moved(part) == [("all_reduce", (0,))]


def sums(a, b):
    first = a.sum()
    scaled = a * first
    return scaled, b.sum(axis=0), (a * b).sum()


def test_small_all_reduces_run_as_one(spmd):
    part = sg.partition(sg.trace(sums, A, A), sg.Grid((3,)), sg.Sharding(sg.Grid((3,)), [[0]]))
    apart = sg.partition(part.program, part.grid, part.in_shardings, optimise=False)
    assert len(apart.collectives()) == 3
    assert part.collectives() == [("all_reduce", (0,), sum(each.bytes for each in apart.collectives()))]
    a, b = np.arange(144.0).reshape(2, 12, 6)

    def body():
        grid = sg.init_grid((3,))
        given = [sg.from_global(x, s, grid) for x, s in zip((a, b), part.in_shardings)]
        results = [part.run(grid, *given), part.run(grid, *given)]
        found = [[np.asarray(x.to_global() if isinstance(x, sg.ShardedArray) else x) for x in each] for each in results]
        return [np.allclose(x, want) for each in found for x, want in zip(each, sums(a, b))]

    assert spmd(3, body) == [[True] * 6] * 3


def test_sums_that_need_each_other_run_one_after_the_other():
    def after(a):
        first = a.sum()
        return (a * first).sum()

    part = sg.partition(sg.trace(after, A), sg.Grid((3,)), sg.Sharding(sg.Grid((3,)), [[0]]))
    assert len(part.collectives()) == 2


def test_halos_of_several_fields_run_as_one(spmd):
    def differences(u, v):
        return (u[2:] - u[1:-1]) * (v[2:] + v[1:-1]) + u[:-2] * v[:-2]

    grid = sg.Grid((3,))
    spec = sg.ArraySpec((12, 5)), sg.ArraySpec((12, 5), "f4")
    part = sg.partition(sg.trace(differences, *spec), grid, sg.Sharding(grid, [[0]]))
    assert [step.together for step in part.schedule.steps if isinstance(step, Move)] == [1, 1]
    assert len(part.collectives()) == 1
    u, v = np.arange(60.0).reshape(12, 5), np.arange(60, dtype="f4").reshape(5, 12).T.copy()

    def body():
        devices = sg.init_grid((3,))
        given = [sg.from_global(x, s, devices) for x, s in zip((u, v), part.in_shardings)]
        return np.array_equal(part.run(devices, *given).to_global(), differences(u, v))

    assert spmd(3, body) == [True] * 3
