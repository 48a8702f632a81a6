"""Annotations: what holds, what gives way, and what is refused with both lines of the user's function."""

import inspect
import re

import numpy as np
import pytest

import spmd_grid as sg

GRID = sg.Grid((2, 3))
A = sg.ArraySpec((12, 6))


def on(axes, **options):
    return sg.Sharding(GRID, axes, **options)


def planned(function, specs, ins=None, outs=None):
    return sg.partition(sg.trace(function, *specs), GRID, ins, outs)


def refused(function, specs=(A,), ins=None, error=sg.ShardingError):
    """The text of the refusal, and the lines of the function that it names, counted from its ``def``."""
    with pytest.raises(error) as caught:
        planned(function, specs, ins)
    first = inspect.getsourcelines(function)[1]
    lines = [int(each) - first for each in re.findall(r"test_annotations\.py:(\d+)", str(caught.value))]
    return str(caught.value), lines


# -- refusals --------------------------------------------------------------------------------------------------------


def test_two_requirements_name_the_value_and_both_lines():
    def function(a):
        b = a + 1
        sg.constrain(b, on([[0]]))
        sg.constrain(b, on([[1]]))
        return b

    text, lines = refused(function)
    assert lines == [2, 3]
    assert "%b is required as [[0]] on 2x3" in text
    assert "as [[1]] on 2x3" in text
    assert "both cannot hold" in text


def test_an_argument_against_a_line():
    def function(a):
        return sg.constrain(a, on([[1]])) + 1

    text, lines = refused(function, ins=[on([[0]])])
    assert lines == [1]
    assert "in_shardings[0]" in text


def test_members_of_one_group():
    def function(a):
        b = sg.sharding_group(a * 2, "same")
        c = sg.sharding_group(a * 3, "same")
        sg.constrain(b, on([[0]]))
        sg.constrain(c, on([[], [1]]))
        return b, c

    text, lines = refused(function)
    assert lines == [3, 4]
    assert "%b and %c are in one sharding group" in text


def test_groups_with_a_common_value_are_one():
    def function(a):
        b, c, d = a * 2, a * 3, a * 4
        sg.sharding_group(b, "first"), sg.sharding_group(c, "first")
        sg.sharding_group(c, "second"), sg.sharding_group(d, "second")
        sg.constrain(b, on([[0]]))
        sg.constrain(d, on([[1]]))
        return b, c, d

    assert "in one sharding group" in refused(function)[0]


def test_an_axis_that_one_line_cuts_by_and_another_bars():
    def function(a):
        sg.constrain(a, on([[0]]))
        sg.constrain(a, on([[0]]), replicated_axes=[1])
        return sg.constrain(a, on([[0], [1, sg.OPEN]])) + 1

    text, lines = refused(function)
    assert lines == [1, 3]
    assert "both cannot hold" in text


def test_an_axis_that_two_open_annotations_use_for_different_dimensions():
    def function(a):
        sg.constrain(a, on([[0], [sg.OPEN]]))
        return sg.constrain(a, on([[sg.OPEN], [0]])) + 1

    assert refused(function)[1] == [1, 2]


@pytest.mark.parametrize(
    ("axes", "options"),
    [([[0], [0]], {}), ([[0, 0]], {}), ([[0]], {"partial_axes": [0]}), ([[0], ["x", "x"]], {})],
)
def test_an_axis_used_twice(axes, options):
    grid = sg.Grid((2, 3), axis_names=("x", "y"))
    with pytest.raises(sg.AxisError, match=r"twice|duplicate|once"):
        sg.Sharding(grid, axes, **options)


def test_an_axis_that_cuts_and_is_to_be_replicated():
    def function(a):
        return sg.constrain(a, on([[0]]), replicated_axes=[0])

    text, lines = refused(function)
    assert lines == [1]
    assert re.search(r"replicated_axes of %a is \[0\]", text)


@pytest.mark.parametrize(
    ("first", "second"),
    [(on([], partial_axes=[0]), on([], partial_axes=[1])), (on([[0]], halo_sizes=[1, 1]), on([[0]]))],
)
def test_what_is_partial_and_what_has_halos_must_agree(first, second):
    def function(a):
        b = a + 1
        sg.constrain(b, first)
        return sg.constrain(b, second)

    assert refused(function)[1] == [2, 3]


def test_more_dimensions_than_the_value_has():
    def function(a):
        return sg.constrain(a.sum(axis=1), on([[], [0]]))

    text, lines = refused(function)
    assert lines == [1]
    assert "has 1" in text


def test_another_grid():
    with pytest.raises(sg.GridError, match="is on 6, and not on 2x3"):
        planned(lambda a: a, [A], [sg.Sharding(sg.Grid((6,)), [[0]])])


# -- what holds ------------------------------------------------------------------------------------------------------


def test_a_requirement_replaces_what_reached_its_value():
    """The first priority reaches b; the requirement on it is kept all the same, and b is moved."""

    def function(a):
        b = a + 1
        sg.constrain(b, on([[], [1]]), priority=1)
        return b * 2

    part = planned(function, [A], [on([[0]])])
    assert part.sharding_of("b") == on([[], [1]])
    assert part.in_shardings == (on([[0]]),)


def test_a_hint_gives_way_and_is_remembered():
    def function(a):
        b = a + 1
        sg.constrain(b, on([[1]]), required=False, priority=1)
        return b * 2

    part = planned(function, [A], [on([[0]])])
    assert part.sharding_of("b") == on([[0]])
    ((hint, text),) = part.solution.dropped
    assert not hint.required
    assert "in_shardings[0]" in text


def test_a_hint_takes_the_axes_that_are_free():
    def function(a):
        return sg.constrain(a, on([[0], [1]]), required=False, priority=1) * 2

    part = planned(function, [A], [on([[0], [sg.OPEN]])])
    assert part.sharding_of("a") == on([[0], [1]])


def test_open_dimensions_take_axes_and_closed_ones_do_not():
    def function(a, b, c):
        return a + b + c

    part = planned(function, [A] * 3, [on([[0, sg.OPEN], [sg.OPEN]]), on([[0, 1]]), on([[0], []])])
    assert part.in_shardings == (on([[0, 1]]), on([[0, 1]]), on([[0]]))


def test_an_open_dimension_that_takes_an_axis_has_no_halo():
    def function(a, b):
        return sg.constrain(a, on([[sg.OPEN], [1]], halo_sizes=[(0, 1)])) + b

    part = planned(function, [A, A], [None, on([[0], [1]])])
    assert part.sharding_of("a") == on([[0], [1]], halo_sizes=[(0, 0), (0, 1)])


def test_halos_of_different_dimensions_contradict_each_other():
    def function(a):
        sg.constrain(a, on([[0], [sg.OPEN]], halo_sizes=[(0, 1)]))
        return sg.constrain(a, on([[sg.OPEN], [1]], halo_sizes=[(0, 1)])) + 1

    text, lines = refused(function)
    assert lines == [1, 2] and "both cannot hold" in text


def test_replicated_axes_are_not_taken():
    def function(a, b):
        sg.constrain(a, on([[sg.OPEN], [sg.OPEN]]), replicated_axes=[0])
        return a + b

    part = planned(function, [A, A], [None, on([[0], [1]])])
    assert part.sharding_of("a") == on([[], [1]])


def test_a_group_gets_one_sharding():
    """As in the notes on Shardy: nothing connects the two but the group."""

    def function(a, b):
        sg.sharding_group(a, 0), sg.sharding_group(b, 0)
        return a * 2, b * 3

    part = planned(function, [A, A], [on([[0], [1]]), None])
    assert set(part.in_shardings) == {on([[0], [1]])}
    assert set(part.out_shardings) == {on([[0], [1]])}


def test_users_of_one_value_may_see_different_shardings():
    def function(a):
        return sg.constrain(a, on([[1]]), for_users=True) + 1, a * 2

    part = planned(function, [A], [on([[0]])])
    assert part.in_shardings == (on([[0]]),)
    assert part.out_shardings == (on([[1]]), on([[0]]))


def test_annotated_functions_run_on_numpy_arrays():
    def function(a):
        return sg.sharding_group(sg.constrain(a, on([[0]])), 1) + 1

    assert function(np.ones(3)).tolist() == [2, 2, 2]
