"""Every operation against its global oracle: grids, axes in any order, extents, dtypes, layouts of memory, paths."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from support.ops import ops_oracle
from support.ops.ops_oracle import DTYPES, LAYOUTS, NUMERIC, all_axes, same, sample

import spmd_grid as sg

GRIDS = [(1,), (2,), (3,), (2, 2), (2, 3), (1, 3)]
NAMES = ("rows", "columns")

# By operation: arguments (without root), and the shape of device d's array.  The extents are uneven, some are 0 and
# some smaller than the group; sizes lie below the 128 bytes that fit a frame, above, and above 64 KiB.
CASES = {
    "all_gather": [
        ({"gather_axis": 0}, lambda d: (3,)),
        ({"gather_axis": 0}, lambda d: ((d * 2 + 1) % 4, 2)),
        ({"gather_axis": 1}, lambda d: (5, d % 3, 3)),
        ({"gather_axis": 0}, lambda d: (0, 4)),
        ({"gather_axis": 2}, lambda d: (2, 0, d)),
        ({"gather_axis": 1}, lambda d: (130, 60 + 11 * d)),
    ],
    "all_slice": [
        ({"slice_axis": 0}, lambda d: (7 + d,)),
        ({"slice_axis": 1}, lambda d: (3, 2, 2)),
        ({"slice_axis": 0}, lambda d: (0, 3)),
        ({"slice_axis": 1}, lambda d: (40, 301)),
    ],
    "all_to_all": [
        ({"split_axis": 0, "concat_axis": 0}, lambda d: (d + 2,)),
        ({"split_axis": 0, "concat_axis": 1}, lambda d: (7, (d * 2) % 3)),
        ({"split_axis": 1, "concat_axis": 0}, lambda d: (2 + d % 2, 1, 3)),
        ({"split_axis": 2, "concat_axis": 1}, lambda d: (2, 3, 4)),
        ({"split_axis": 1, "concat_axis": 1}, lambda d: (0, 5)),
        ({"split_axis": 1, "concat_axis": 0}, lambda d: (70 + d, 129)),
    ],
    "broadcast": [
        ({}, lambda d: ()),
        ({}, lambda d: (d + 1, 2)),
        ({}, lambda d: (3, 0)),
        ({}, lambda d: (121, 70 + d)),
    ],
    "scatter": [
        ({"scatter_axis": 0}, lambda d: (7,)),
        ({"scatter_axis": 1}, lambda d: (2, d + 1)),
        ({"scatter_axis": 0}, lambda d: (0, 3)),
        ({"scatter_axis": 0}, lambda d: (1, 5)),
        ({"scatter_axis": 1}, lambda d: (65, 131)),
    ],
    "shift": [
        ({"offset": 1}, lambda d: (2, d)),
        ({"offset": -1, "rotate": True}, lambda d: (d + 1,)),
        ({"offset": 0}, lambda d: ()),
        ({"offset": 2, "rotate": True}, lambda d: (3, 2, 1)),
        ({"offset": -5, "rotate": True}, lambda d: (90 + d, 100)),
        ({"offset": 1, "fill": 1}, lambda d: (3, 5)),
        ({"offset": 7}, lambda d: (4,)),
    ],
    "all_reduce": [
        ({"reduction": "sum"}, lambda d: ()),
        ({"reduction": "max"}, lambda d: (3, 2)),
        ({"reduction": "min"}, lambda d: (0, 2)),
        ({"reduction": "product"}, lambda d: (5, 7)),
        ({"reduction": "sum"}, lambda d: (121, 71)),
    ],
    "reduce_scatter": [
        ({"reduction": "sum", "scatter_axis": 0}, lambda d: (7,)),
        ({"reduction": "max", "scatter_axis": 1}, lambda d: (2, 1, 3)),
        ({"reduction": "min", "scatter_axis": 0}, lambda d: (0, 4)),
        ({"reduction": "sum", "scatter_axis": 1}, lambda d: (67, 131)),
    ],
}
CASES["gather"] = CASES["all_gather"]
CASES["reduce"] = CASES["all_reduce"]
ROOTED = ("broadcast", "gather", "scatter", "reduce")
REDUCING = ("all_reduce", "reduce", "reduce_scatter")


@dataclass
class Case:
    """One call: what each device passes, and what each gets."""

    op: str
    grid_shape: tuple
    axes: list
    args: dict
    shape_of: object
    dtype: object = "f8"
    layout: str = "C"
    by_name: bool = False
    arrays: list = field(init=False)

    def __post_init__(self):
        n = math.prod(self.grid_shape)
        if self.op in REDUCING:
            self.shape_of = lambda device, same_for_all=self.shape_of: same_for_all(0)
        self.arrays = [sample(self.shape_of(device), self.dtype, device) for device in range(n)]

    def expected(self):
        return ops_oracle.expected(self.op, self.arrays, self.grid_shape, self.axes, **self.args)

    def run(self, grid):
        """The result; the result into ``out``; whether ``out`` itself came back.

        Inputs are overwritten as soon as a call returns: a result that aliases them, or that somebody still reads,
        becomes wrong.
        """
        first, _ = self.call(grid)
        if first is None:
            _, returned = self.call(grid)
            return None, None, returned is None
        out = LAYOUTS["strided" if self.layout == "C" else "C"](np.zeros(first.shape, first.dtype))
        second, returned = self.call(grid, out=out)
        return first, second, returned is out

    def call(self, grid, **out):
        x = sample(self.shape_of(grid.rank), self.dtype, grid.rank, self.layout)
        axes = [grid.axis_names[axis] for axis in self.axes] if self.by_name else self.axes
        args = dict(self.args)
        if "shift_axis" in args and self.by_name:
            args["shift_axis"] = grid.axis_names[args["shift_axis"]]
        result = getattr(sg, self.op)(x, grid, axes, **args, **out)
        x[...] = np.zeros((), self.dtype)
        return (None if result is None else result.copy()), result


def check(spmd, grid_shape, cases):
    def body():
        grid = sg.init_grid(grid_shape, axis_names=NAMES[: len(grid_shape)])
        return [case.run(grid) for case in cases]

    by_device = spmd(math.prod(grid_shape), body)
    for number, case in enumerate(cases):
        for device, wanted in enumerate(case.expected()):
            plain, into_out, returned_out = by_device[device][number]
            assert same(plain, wanted), (case, device, plain, wanted)
            assert same(into_out, wanted), (case, device, into_out, wanted)
            assert returned_out, (case, device)


def arguments(op, args, grid_shape, axes):
    """The arguments of a case, completed for a group: each of two roots, each axis to shift along."""
    if op in ROOTED:
        sizes = [grid_shape[axis] for axis in axes]
        return [args | {"root": [size - 1 for size in sizes]}, args | {"root": [0] * len(sizes)}]
    if op == "shift":
        return [args | {"shift_axis": axis} for axis in axes]
    return [args]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
@pytest.mark.parametrize("op", CASES)
def test_grids_axes_and_extents(spmd, path, op, grid_shape):
    """All subsets of axes in all orders, by number and by name; dtypes and layouts take turns."""
    dtypes = itertools.cycle(NUMERIC if op in REDUCING else DTYPES)
    layouts, by_name = itertools.cycle(LAYOUTS), itertools.cycle([False, True])
    cases = [
        Case(op, grid_shape, axes, completed, shape_of, next(dtypes), next(layouts), next(by_name))
        for axes in all_axes(grid_shape)
        for args, shape_of in CASES[op]
        for completed in arguments(op, args, grid_shape, axes)
        if not (op == "shift" and "fill" in args)
    ]
    check(spmd, grid_shape, cases)


@pytest.mark.parametrize("op", CASES)
def test_dtypes_and_layouts(spmd, path, op):
    """Every dtype in every layout, small and larger than a frame."""
    cases = [
        Case(op, (3,), [0], arguments(op, CASES[op][1][0], (3,), [0])[0], shape_of, dtype, layout)
        for dtype, layout in itertools.product(NUMERIC if op in REDUCING else DTYPES, LAYOUTS)
        for shape_of in (lambda d: (2, 3), lambda d: (9, 8, 1))
    ]
    check(spmd, (3,), cases)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.str)
def test_shift_fills_where_nobody_sends(spmd, path, dtype):
    fill = np.zeros((), dtype)[()]
    case = Case("shift", (3,), [0], {"shift_axis": 0, "offset": 1, "fill": fill}, lambda d: (d + 1, 2), dtype)
    check(spmd, (3,), [case])


def test_shift_fills_with_the_sign_of_zero(spmd, path):
    """Equal as they are, 0.0 and -0.0 are different fills, also one after the other on one grid."""

    def body():
        grid = sg.init_grid((2,))
        fills = [0.0, -0.0, 0, False, 1, True]
        return [str(sg.shift(2.0, grid, [0], 0, 1, fill=fill)) for fill in fills]

    assert spmd(2, body) == [["0.0", "-0.0", "0.0", "0.0", "1.0", "1.0"], ["2.0"] * 6]


def test_shift_over_more_axes_than_the_one_it_moves_along(spmd, path):
    for shift_axis in (0, 1):
        for axes in ([0, 1], [1, 0]):
            args = {"shift_axis": shift_axis, "offset": 1, "rotate": True}
            check(spmd, (2, 3), [Case("shift", (2, 3), axes, args, lambda d: (d % 3,))])


@pytest.mark.parametrize("op", ["all_gather", "gather", "all_to_all"])
def test_extents_given(spmd, path, op):
    """Extents by group order, as list, tuple or array: the same result as without."""
    args = {"all_to_all": {"split_axis": 0, "concat_axis": 1}}.get(op, {"gather_axis": 1})
    args |= {"root": [2, 1]} if op == "gather" else {}

    def body(kind):
        grid = sg.init_grid((2, 3))
        x = sample((7, grid.rank + 1), "f8", grid.rank)
        return getattr(sg, op)(x, grid, [1, 0], **args, extents=kind([1, 4, 2, 5, 3, 6]))

    arrays = [sample((7, device + 1), "f8", device) for device in range(6)]
    wanted = ops_oracle.expected(op, arrays, (2, 3), [1, 0], **args)
    for kind in (list, tuple, np.array):
        assert all(map(same, spmd(6, body, kind), wanted))


@pytest.mark.parametrize("op", ["scatter", "reduce_scatter"])
def test_scatter_dim_is_another_name_of_scatter_axis(spmd, path, op):
    args = ({"reduction": "sum"} if op == "reduce_scatter" else {"root": [0]}) | {"dim": 1}

    def body(name):
        grid = sg.init_grid((3,))
        given = {(name if key == "dim" else key): value for key, value in args.items()}
        return getattr(sg, op)(sample((2, 7), "i4", grid.rank), grid, [0], **given)

    assert all(map(same, spmd(3, body, "scatter_dim"), spmd(3, body, "scatter_axis")))


@pytest.mark.parametrize(
    "x",
    [3, 2.5, True, 1j, [1, 2, 3], (4, 5), [[1.5], [2.5]], [], np.float32(2), np.arange(3).view(np.matrix)],
    ids=repr,
)
def test_what_is_not_an_array_yet(spmd, path, x):
    """Scalars, lists and tuples are taken as ``numpy.asarray`` takes them; a subclass comes back as an array."""
    array = np.asarray(x)

    def body():
        grid = sg.init_grid((2,))
        return [
            sg.all_reduce(x, grid, [0], "max"),
            sg.broadcast(x, grid, [0], [1]),
            sg.shift(x, grid, [0], 0, 1, rotate=True),
            *([sg.all_gather(x, grid, [0], 0)] if array.ndim else []),
            *([sg.all_slice(x, grid, [0], 0)] if array.ndim else []),
        ]

    for rank, results in enumerate(spmd(2, body)):
        wanted = [array] * 3
        if array.ndim:
            wanted += [np.concatenate([array, array]), ops_oracle.cut(array, 0, [2])[rank]]
        assert all(map(same, results, wanted)), (results, wanted)


def test_off_the_root_x_is_ignored(spmd, path):
    """None, an array that no operation takes, another shape and dtype: all alike off the root."""
    ignored = [
        None,
        object(),
        np.array([None]),
        "text",
        np.ma.masked_array([1, 2], [True, False]),
        np.zeros((2, 9), "c8"),
    ]

    def body(other):
        grid = sg.init_grid((3,))
        x = np.arange(5) if grid.rank == 1 else other
        return sg.broadcast(x, grid, [0], [1]), sg.scatter(x, grid, [0], 0, [1])

    for other in ignored:
        for rank, (whole, part) in enumerate(spmd(3, body, other)):
            assert same(whole, np.arange(5)) and same(part, ops_oracle.cut(np.arange(5), 0, [3])[rank])


def test_off_the_root_out_is_ignored(spmd, path):
    """gather and reduce have no result off the root: an ``out`` there, of any shape, is left alone."""

    def body():
        grid = sg.init_grid((2,))
        out = np.full((4,) if grid.rank == 0 else (7,), -1)
        gathered = sg.gather(np.arange(2), grid, [0], 0, [0], out=out)
        reduced = sg.reduce(np.arange(4), grid, [0], "sum", [0], out=out.copy())
        return (gathered is None, reduced is None, out.tolist())

    assert spmd(2, body) == [(False, False, [0, 1, 0, 1]), (True, True, [-1] * 7)]


def test_results_are_writeable_and_private(spmd, path):
    """Every device owns its result: writing to one changes nobody else's, nor x."""

    def body(shape, axes):
        grid = sg.init_grid((2,))
        x, fine = np.arange(math.prod(shape)).reshape(shape), []
        root = [0] * len(axes)
        for result in [
            sg.all_gather(x, grid, axes, 0),
            sg.all_reduce(x, grid, axes),
            sg.all_slice(x, grid, axes, 0),
            sg.all_to_all(x, grid, axes, 0, 0),
            sg.broadcast(x, grid, axes, root),
            sg.gather(x, grid, axes, 0, root),
            sg.reduce(x, grid, axes, "sum", root),
            sg.reduce_scatter(x, grid, axes, "sum", 0),
            sg.scatter(x, grid, axes, 0, root),
            sg.shift(x, grid, [0], 0, 0),
        ]:
            if result is not None:
                before = result.copy()
                sg.all_reduce(0, grid, [0])
                result += 1 + grid.rank
                sg.all_reduce(0, grid, [0])
                fine.append(np.array_equal(result, before + 1 + grid.rank) and not np.may_share_memory(result, x))
            else:
                sg.all_reduce(0, grid, [0])
                sg.all_reduce(0, grid, [0])
        return all(fine) and np.array_equal(x, np.arange(math.prod(shape)).reshape(shape))

    for shape in ((2, 2), (200, 100)):
        for axes in ([0], []):
            assert spmd(2, body, shape, axes) == [True, True]
