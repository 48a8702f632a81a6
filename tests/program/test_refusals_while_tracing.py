"""Refusals while tracing: the value, the line of the user's function, and both sides of a conflict."""

import math
import warnings

import numpy as np
import pytest

import spmd_grid as sg

GRID = sg.Grid((2, 2))
ROWS, COLUMNS = sg.Sharding(GRID, [[0]]), sg.Sharding(GRID, [[], [0]])
LINE = sg.Sharding(sg.Grid((4,)), [[0]])
OUTSIDE = []


def two_requirements(a):
    b = sg.constrain(a + 1, ROWS)
    return sg.constrain(b, COLUMNS)


CASES = {
    "no rule": (lambda a: np.linalg.svd(a), sg.ImplicitGatherError, "svd has no sharding rule"),
    "a ufunc method": (lambda a: np.add.reduceat(a, [0, 2]), sg.ImplicitGatherError, "add.reduceat"),
    "an argument without a rule": (lambda a: np.diff(a, prepend=0), sg.ImplicitGatherError, "prepend"),
    "a shape that depends on cells": (lambda a: np.nonzero(a), sg.ImplicitGatherError, "shape of its result depends"),
    "by a method": (lambda a: a.nonzero(), sg.ImplicitGatherError, "shape of its result depends"),
    "by a mask": (lambda a: a[a > 0], sg.ImplicitGatherError, r"shape of a\[mask\] depends on cells"),
    "by an array of numbers": (
        lambda a: a[a.astype(int)[0]],
        sg.ImplicitGatherError,
        "a list of integers of the program",
    ),
    "a decision": (lambda a: 1 if a.sum() > 0 else 2, sg.ImplicitGatherError, "a decision depends on its cells"),
    "a loop": (lambda a: [1 for _ in range(a.max())], sg.ImplicitGatherError, "turned into a number"),
    "float()": (lambda a: float(a[0, 0]), sg.ImplicitGatherError, "turned into a number"),
    "int()": (lambda a: int(a.sum()), sg.ImplicitGatherError, "turned into a number"),
    "item": (lambda a: a.max().item(), sg.ImplicitGatherError, "turned into a number"),
    "math": (lambda a: math.sin(a[0, 0]), sg.ImplicitGatherError, "turned into a number"),
    "a plain array": (lambda a: np.asarray(a), sg.ImplicitGatherError, "cells are asked for"),
    "into a plain array": (lambda a: np.zeros((7, 5)).__setitem__(0, a[0]), sg.ImplicitGatherError, "cells are asked"),
    "a list of arrays": (lambda a: np.array([a[0], a[1]]), sg.ImplicitGatherError, "cells are asked for"),
    "shapes": (lambda a: a + np.ones(3), sg.ShapeError, r"operands have shapes \(7, 5\), \(3,\)"),
    "matmul": (lambda a: a @ a, sg.ShapeError, r"\(7, 5\)"),
    "axis": (lambda a: np.flip(a, 2), sg.AxisError, "axis is 2"),
    "dtype": (lambda a: np.bitwise_and(a, 1), sg.DTypeError, "bitwise_and"),
    "dtype of out": (lambda a: np.add(a, 1, out=a.astype("i4")), sg.DTypeError, "out has dtype int32"),
    "shape of out": (lambda a: np.add(a, 1, out=a[1:]), sg.DTypeError, r"of shape \(7, 5\)"),
    "out is plain": (lambda a: np.add(a, 1, out=np.empty((7, 5))), sg.DTypeError, "out must be an array of the traced"),
    "cast": (lambda a: a.astype("i4", casting="safe"), sg.DTypeError, "cannot be cast to int32"),
    "in place, of another kind": (lambda a: a.astype("i4").__iadd__(0.5), sg.DTypeError, "out has dtype int32"),
    "index": (lambda a: a[9], IndexError, "index 9 is out of bounds"),
    "indices": (lambda a: a[0, 0, 0], IndexError, "indices"),
    "list": (lambda a: a[[8]], IndexError, "8"),
    "assigned shape": (lambda a: a.__setitem__(np.s_[1:], np.ones((3, 5))), sg.ShapeError, "value has shape"),
    "reshape": (lambda a: a.reshape(4, 4), sg.ShapeError, "cannot be reshaped"),
    "concatenate": (lambda a: np.concatenate([a, a[1:]], 1), sg.ShapeError, "must be equal but for dimension 1"),
    "foreign operand": (lambda a: np.add(a, [1, 2, 3, 4, 5]), sg.DTypeError, "an operand is list"),
    "repeats": (lambda a: np.repeat(a, [1, 2], axis=0), sg.ShapeError, "one for each of 7 cells"),
    "bins by name": (lambda a: np.histogram(a, "auto"), sg.ImplicitGatherError, "bins is 'auto'"),
    "a scan that is not associative": (lambda a: np.subtract.accumulate(a), sg.ImplicitGatherError, "accumulate"),
    "annotation of too many dimensions": (
        lambda a: sg.constrain(a, sg.Sharding(GRID, [[], [], [0]])),
        sg.ShardingError,
        "has 3 dimensions, %a has 2",
    ),
    "annotation by offsets": (
        lambda a: sg.constrain(a, sg.Sharding(GRID, [[0]], sharded_dims_offsets=[[0, 3, 8]])),
        sg.ShardingError,
        "end at 8; %a has extent 7",
    ),
    "annotation that is none": (lambda a: sg.constrain(a, [[0]]), sg.ShardingError, r"sharding is \[\[0\]\]"),
    "replicated and cut": (
        lambda a: sg.constrain(a, ROWS, replicated_axes=[0]),
        sg.ShardingError,
        r"replicated_axes of %a is \[0\]",
    ),
    "a group of two shapes": (
        lambda a: [sg.sharding_group(a, 1), sg.sharding_group(a[1:], 1)],
        sg.ShapeError,
        r"has shape \(6, 5\).*%a of group 1 has \(7, 5\)",
    ),
}
# Refusals of what the function is or returns: no line of it is at fault.
WHOLE = {
    "nothing is returned": (lambda a: None, sg.DTypeError, "returns NoneType"),
    "a dict is returned": (lambda a: {"b": a}, sg.DTypeError, "returns dict; it must return an array, or a tuple"),
    "a nested tuple": (lambda a: (a, (a, a)), sg.DTypeError, "returns tuple"),
    "too many parameters": (lambda a, b: a, sg.ShapeError, "1 specs are given for .*missing a required argument: 'b'"),
    "too few parameters": (lambda: 1, sg.ShapeError, "1 specs are given for .*too many positional arguments"),
    "a keyword": (lambda a, *, by: a, sg.ShapeError, "'by'.*functools.partial"),
    "no function": (3, sg.DTypeError, "fn is 3"),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(case):
    function, kind, words = CASES[case]
    with pytest.raises(kind, match=words) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sg.trace(lambda a: function(a), sg.ArraySpec((7, 5)))
    said = str(caught.value)
    if kind not in (sg.ShardingError,) or "sharding is" not in said:
        assert said.count(__file__) >= 1, said
        assert "%" in said, said


@pytest.mark.parametrize("case", WHOLE)
def test_refusals_of_functions(case):
    function, kind, words = WHOLE[case]
    with pytest.raises(kind, match=words):
        sg.trace(function, sg.ArraySpec((7, 5)))


@pytest.mark.parametrize("spec", [3, None, (2, 3)])
def test_specs(spec):
    with pytest.raises(sg.DTypeError, match="spec 0 is"):
        sg.trace(lambda a: a, spec)


def test_arrays_of_others(spmd):
    def body():
        grid = sg.init_grid((2,))
        captured = sg.zeros((7, 5), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(sg.DTypeError, match=r"an operand is a ShardedArray.*of %a: .*tracing.py:\d+"):
            sg.trace(lambda a: a + captured, sg.ArraySpec((7, 5)))
        with pytest.raises(sg.DTypeError, match=r"an operand is a ShardedArray.*of %a: .*tracing.py:\d+"):
            sg.trace(lambda a: captured * a, sg.ArraySpec((7, 5)))

    spmd(2, body)
    sg.trace(lambda a: [OUTSIDE.append(a), a][1], sg.ArraySpec(3, name="escaped"))
    with pytest.raises(sg.DTypeError, match="%escaped: .*belongs to another traced function"):
        sg.trace(lambda a: a + OUTSIDE[0], sg.ArraySpec(3))


def test_conflicts_name_both_sides():
    program = sg.trace(two_requirements, sg.ArraySpec((7, 5)))
    with pytest.raises(sg.ShardingError) as caught:
        sg.partition(program, GRID)
    said, first = str(caught.value), two_requirements.__code__.co_firstlineno
    assert "%b is required as" in said and str(ROWS) in said and str(COLUMNS) in said
    assert f"{__file__}:{first + 1}" in said and f"{__file__}:{first + 2}" in said


PARTITIONED = {
    "another grid": (
        lambda a: sg.constrain(a, LINE),
        {},
        sg.GridError,
        r"constrain at .*:\d",
    ),
    "in_shardings of another grid": (
        lambda a: a,
        {"in_shardings": LINE},
        sg.GridError,
        "%a",
    ),
    "too many in_shardings": (lambda a: a, {"in_shardings": [ROWS, ROWS]}, sg.ShardingError, "2"),
    "dimensions of in_shardings": (
        lambda a: a,
        {"in_shardings": sg.Sharding(GRID, [[], [], [0]])},
        sg.ShardingError,
        "%a",
    ),
}


@pytest.mark.parametrize("case", PARTITIONED)
def test_refusals_of_partitions(case):
    function, options, kind, words = PARTITIONED[case]
    with pytest.raises(kind, match=words):
        sg.partition(sg.trace(function, sg.ArraySpec((7, 5), name="a")), GRID, **options)


def test_an_axis_twice():
    with pytest.raises(sg.AxisError, match="axis 0 twice"):
        sg.trace(lambda a: sg.constrain(a, sg.Sharding(GRID, [[0], [0]])), sg.ArraySpec((7, 5)))


def test_annotations_outside_of_programs(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        a = sg.zeros((7, 5), ROWS, grid)
        assert sg.constrain(a, COLUMNS).sharding == COLUMNS
        assert sg.constrain(a, ROWS) is a and sg.sharding_group(a, 3) is a
        x = np.zeros((7, 5))
        assert sg.constrain(x, COLUMNS) is x

    spmd(4, body)


def test_plain_arrays_take_annotations():
    """The seed's zeros_like by a group: a constant is sharded as the argument is."""

    def zeros(a):
        sg.sharding_group(a, 0)
        return sg.sharding_group(np.zeros((8, 2), int), 0)

    part = sg.partition(sg.trace(zeros, sg.ArraySpec((8, 2), "i8")), GRID, sg.Sharding(GRID, [[0], [1]]))
    assert part.sharding_of(part.program.results[0]) == sg.Sharding(GRID, [[0], [1]])
    assert part.collectives() == []
