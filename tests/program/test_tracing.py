"""Functions of all forms become programs: what is written in place, what is copied, what is returned, and names."""

import functools

import numpy as np
import pytest
from support.program.running import check

import spmd_grid as sg

X = np.arange(35.0).reshape(7, 5) % 8 - 3
PLAIN = np.arange(5.0)


def loops(a):
    total = 0
    for row in a:
        total = total + row * len(a)
    return total


def changed_later(a):
    c = np.zeros(5)
    first = a + c
    c[0] = 100
    return first, a + c, c


def grown(a):
    grown = [a]
    for _ in range(3):
        grown.append(grown[-1] * 2)
    return sum(grown)


def nested(a):
    def inner(x, *, by):
        return np.where(x > 0, x, by * x)

    return inner(a, by=0.5)


class Model:
    def __init__(self):
        self.rows = 3

    def step(self, a):
        return np.roll(a, self.rows, axis=0)

    def __call__(self, a):
        return self.step(a) - a


FORMS = {
    "a loop over rows": loops,
    "a method": Model().step,
    "an object": Model(),
    "keywords that are bound": functools.partial(lambda a, *, by: a * by, by=3),
    "a function inside": nested,
    "several arguments": lambda *arrays: arrays[0] + 1,
    "a tuple": lambda a: (a + 1, a.sum(), 5, 2.5),
    "a list of one": lambda a: [a * 2],
    "the argument": lambda a: a,
    "one result twice": lambda a: (a, a, (b := a + 1), b),
    "numbers alone": lambda a: (1, np.float32(2), True),
    "a plain array": lambda a: (np.arange(4), a[0]),
    "a plain array that is written to": changed_later,
    "no arrays at all": lambda a: a.shape[0],
    "a list that grows": grown,
    "nothing is cut": lambda a: np.sum(a) * a[0, 0],
    "a copy": lambda a: a.copy() + np.copy(a),
    "the same shape": lambda a: [(b := a.reshape(7, 5)), b.__iadd__(1), a][2],
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(spmd, form):
    check(spmd, (2,), FORMS[form], [X], list(FORMS).index(form))


def same_as_numpy(function):
    """Whether the traced function gives what it gives of numpy's arrays, and leaves its argument as it is."""
    grid = sg.init_grid((2,))
    sharding = sg.Sharding(grid, [[0]])
    part = sg.partition(sg.trace(function, sg.ArraySpec(X.shape)), grid, [sharding])
    argument = sg.from_global(X, sharding, grid)
    np.testing.assert_array_equal(part.run(grid, argument).to_global(), function(X.copy()))
    np.testing.assert_array_equal(argument.to_global(), X)


def in_place(a):
    b = a
    b += 1
    b[1:] *= 2
    b[:, 0] = a[:, 1]
    np.multiply(b, 2, out=a)
    a[a > 3] = 0
    return a, b


def test_names_of_one_array_see_what_is_written(spmd):
    check(spmd, (3,), in_place, [X], 1)


def added_to(a):
    a[1:] += a[:-1]
    a[0] *= 3
    return a


WRITTEN = {
    "a slice": lambda a: [(v := a[1:]), v.__iadd__(1), a][2],
    "a transpose": lambda a: [(v := a.T), v.__setitem__(0, 7), a][2],
    "a slice of a slice": lambda a: [a[1:].__setitem__(0, 7), a][1],
    "a reshape": lambda a: [np.reshape(a, (5, 7)).fill(1), a][1],
    "a reshape that is a copy": lambda a: [np.reshape(a.T, (7, 5)).fill(1), a][1],
    "a row of a loop": lambda a: [[row.fill(0) for row in a], a][1],
    "what was before": lambda a: [(before := a + 0), a.fill(9), before][2],
    "an assigned slice": lambda a: [a[1:3].shape, a.__setitem__(np.s_[1:3], 0), a][2],
    "a view after its source": lambda a: [(v := a[1:].T), a.__imul__(2), v + 0][2],
    "a view after another one": lambda a: [(v := a[1:].T), a[2].fill(5), v + 0][2],
    "a flattened array": lambda a: [a.flatten().fill(3), a][1],
    "an index that is added to": added_to,
}


@pytest.mark.parametrize("case", WRITTEN)
def test_views_write_to_their_source(spmd, case):
    spmd(2, lambda: same_as_numpy(WRITTEN[case]))


def test_what_is_read_only_in_numpy_is_refused():
    for view in (lambda a: np.broadcast_to(a, (2, 7, 5)), lambda a: np.diagonal(a, 1), lambda a: np.diag(a)):
        with pytest.raises(sg.OutputError, match="read-only view of another"):
            sg.trace(lambda a, view=view: view(a).fill(1), sg.ArraySpec(X.shape))


def test_names():
    def layer(x, weights, /, *more, scale=2):
        hidden = x @ weights
        return hidden * scale + more[0]

    specs = sg.ArraySpec((4, 8)), sg.ArraySpec((8, 3)), sg.ArraySpec((3,), "float32", "bias")
    program = sg.trace(layer, *specs)
    assert program.name == "layer"
    assert [each.name for each in program.arguments] == ["x", "weights", "bias"]
    assert program.value("hidden").shape == (4, 3)
    first = sg.trace(layer, np.empty((4, 8)), np.empty((8, 3)), np.empty(3)).operations[0]
    assert first.site.file == __file__ and first.site.function == "layer"
    assert sg.trace(lambda a: a, specs[0]).name == "program"


def test_a_function_of_ones_own(spmd):
    """A local function with a rule: cell by cell, along rows, and with the cells beside."""
    from spmd_grid.functions.elementwise import elementwise
    from spmd_grid.functions.table import call, rule
    from spmd_grid.functions.whole import along_whole
    from spmd_grid.functions.windows import windowed

    def softplus(x):
        return np.log1p(np.exp(x))

    def ranked(x):
        return np.argsort(np.argsort(x, axis=1), axis=1)

    def smooth(x):
        return x[:-2] + 2 * x[1:-1] + x[2:]

    rule(softplus)(lambda x: elementwise("softplus", softplus, x))
    rule(ranked)(lambda x: along_whole("ranked", x, 1, ranked))
    rule(smooth)(lambda x: windowed("smooth", smooth, x, halos={0: (1, 1)}))

    def program(a):
        return call(softplus, a), call(ranked, a), call(smooth, call(softplus, a)) * 2

    for number in range(4):
        part = check(spmd, (3,), program, [X], number)
    columns = sg.Sharding(part.grid, [[], [0]])
    moved = sg.partition(part.program, part.grid, [columns]).collectives()
    assert moved[0].name == "all_to_all"  # rows that are cut are made whole
    rows = sg.partition(part.program, part.grid, [sg.Sharding(part.grid, [[0]])]).collectives()
    assert [(each.name, each.bytes) for each in rows] == [("exchange", 2 * 5 * 8)]  # the cells beside alone


def test_compiled_functions(spmd):
    """A kernel compiled by numba, called by a rule on blocks, and in the body of a manual computation."""
    numba = pytest.importorskip("numba")
    from spmd_grid.functions.elementwise import elementwise
    from spmd_grid.functions.table import call, rule

    @numba.njit(nogil=True)
    def halved(x):
        found = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                found[i, j] = x[i, j] / 2 if x[i, j] > 0 else 0
        return found

    rule(halved)(lambda x: elementwise("halved", halved, x))
    rows = sg.Sharding(sg.Grid((2,)), [[0]])

    def program(a):
        tripled = sg.manual(lambda block: halved(block) * 6, [rows], rows, [0], out_specs=sg.ArraySpec((6, 5)))
        return call(halved, a), tripled(a[:6])

    part = sg.partition(sg.trace(program, sg.ArraySpec(X.shape)), rows.grid, [rows])

    def body():
        grid = sg.init_grid((2,))
        first, second = part.run(grid, sg.from_global(X, rows, grid))
        np.testing.assert_array_equal(first.to_global(), halved(X))
        np.testing.assert_array_equal(second.to_global(), np.maximum(X[:6], 0) * 3)

    spmd(2, body)
