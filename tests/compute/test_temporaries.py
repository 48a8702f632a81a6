"""Operators write to temporaries of the same expression, and to no array that anybody can still read."""

import functools
import operator

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.compute import operators
from spmd_grid.compute.alike import again

A = np.random.default_rng(5).standard_normal((20, 9))
B = np.random.default_rng(6).standard_normal((18, 7))
C = np.arange(20 * 9).reshape(20, 9)


def stencil(a, b, c):
    return 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] - b + a[1:-1, :-2] / (2.0 - b)) - 1


def changes_of_dtype(a, b, c):
    return (c[1:-1, 1:-1] - c[:-2, 2:]) / 3 + (c[2:, 2:] + c[2:, 2:]) * b


def kept_by_a_name(a, b, c):
    t = a[1:] + a[:-1]
    u, v = t + 1, t * 2
    return u - v + (t - 1) + t


def kept_by_a_walrus(a, b, c):
    return ((t := a[1:] + a[:-1]) - 1) * t


def kept_in_containers(a, b, c):
    parts = [a[1:] + a[:-1], a[1:] * a[:-1]]
    sums = [each + 1 for each in parts] + [parts[0] - parts[1], parts[1] / parts[0]]
    return functools.reduce(operator.add, sums) + parts[0] + parts[1]


def kept_by_functions(a, b, c):
    t = (a[1:] + a[:-1]).__add__
    u = functools.partial(operator.mul, a[1:] + a[:-1])
    return t(1) + t(2) + u(3) * u(4)


def kept_by_views(a, b, c):
    t = (a[1:] + a[:-1])[:, 1:] + (a[1:] - a[:-1])[:, :-1]
    u = t[1:]
    return u + t[:-1] * (t[1:] + u)


def either_way(a, b, c):
    return (a[1:] + a[:-1] if a.shape[0] > 3 else b[1:]) + 1 - ((a[1:] * 2 or None) + 3 if a.ndim == 1 else a[1:] + 4)


def in_loops(a, b, c):
    total = a[1:] + a[:-1]
    seen = []
    for k in range(3):
        total = total + a[1:] * k - a[:-1]
        seen.append(total)
    return seen[0] + seen[1] * 2 + seen[2] * 3 + total


EXPRESSIONS = [
    stencil,
    changes_of_dtype,
    kept_by_a_name,
    kept_by_a_walrus,
    kept_in_containers,
    kept_by_functions,
    kept_by_views,
    either_way,
    in_loops,
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(spmd, expression):
    def body():
        grid = sg.init_grid((3,), check=False)
        arrays = [
            sg.from_global(A, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid),
            sg.from_global(B, sg.Sharding(grid, [[0]]), grid),
            sg.from_global(C, sg.Sharding(grid, [[0]]), grid),
        ]
        want = expression(A, B, C)
        for _ in range(3):  # the first finds the way, the others repeat it
            found = expression(*arrays)
            np.testing.assert_array_equal(found.to_global(), want)
        assert all((a.to_global() == whole).all() for a, whole in zip(arrays, (A, B, C)))

    spmd(3, body)


def test_which_operators_write_to_an_operand(spmd, monkeypatch):
    seen = {rank: [] for rank in range(2)}

    def spy(ufunc, array, x, y, into):
        seen[array.grid.rank].append("new" if into is None else "left" if into is x else "right")
        return again(ufunc, array, x, y, into)

    monkeypatch.setattr(operators, "again", spy)

    def body():
        grid = sg.init_grid((2,), check=False)  # nothing is recorded: operators take the short way
        a = sg.from_global(A, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        0.5 * (a[2:] + a[:-2] - a[1:-1])
        a[2:] - (a[1:-1] - a[:-2]) * 2
        t = a[2:] + a[:-2]
        t * 2 - (t + 1)
        return seen[grid.rank]

    assert spmd(2, body) == [["new", "left", "right", "new", "left", "right", "new", "new", "new", "new"]] * 2
