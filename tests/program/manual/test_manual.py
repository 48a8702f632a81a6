"""Manual computations: local code along some axes, in programs, at once, and inside one another; their invariants."""

import numpy as np
import pytest
from support.program.running import gathered

import spmd_grid as sg

GRID = sg.Grid((2, 2), axis_names=["data", "model"])
X = np.arange(16 * 32.0).reshape(16, 32) % 13 - 5
Y = np.arange(32 * 8.0).reshape(32, 8) % 7 - 3


def sharding(*axes, **options):
    return sg.Sharding(GRID, list(axes), **options)


def traced(fn, *arrays, **options):
    return sg.partition(sg.trace(fn, *[sg.ArraySpec(x.shape, x.dtype) for x in arrays]), GRID, **options)


def run(part, *arrays):
    grid = sg.init_grid((2, 2), axis_names=["data", "model"])
    return part.run(grid, *[sg.from_global(x, each, grid) for x, each in zip(arrays, part.in_shardings)])


def shifted_sum(block, grid):
    """Each block with the next one along data, and its sum over data."""
    return block - sg.shift(block, grid, ["data"], "data", 1, rotate=True), sg.all_reduce(block, grid, ["data"])


def wanted_sum(x):
    halves = x[:8], x[8:]
    return np.concatenate([halves[0] - halves[1], halves[1] - halves[0]]), halves[0] + halves[1]


@pytest.mark.parametrize("free", ["cut", "whole"])
def test_the_example_of_a_free_axis(spmd, free):
    """in_shardings [{"data"}, {"model", ?}], out_shardings [{"data"}, {?}]: the body is for blocks of 8 x 32.

    Its own operations are cut along model, so that nothing is gathered; as a whole it gets both halves.
    """
    seen = []

    def body(block):
        seen.append(block.shape)
        return np.cumsum(block, axis=1)

    ins, outs = sharding(["data"], ["model", sg.OPEN]), sharding(["data"], [sg.OPEN])
    program = sg.trace(
        lambda x: sg.manual(body, [ins], [outs], ["data"], free=free)(x + 1)[0] * 2, sg.ArraySpec(X.shape)
    )
    part = sg.partition(program, GRID)
    assert part.sharding_of(0) == sharding(["data"], ["model"])
    ends, block = ("all_gather", (1,), 8 * 8), ("all_gather", (1,), 8 * 16 * 8)
    assert part.collectives() == [ends if free == "cut" else block]
    assert part.out_shardings == (sharding(["data"], ["model"] * (free == "cut")),)

    def check():
        np.testing.assert_allclose(gathered(run(part, X)), np.cumsum(X + 1, axis=1) * 2)
        assert set(seen) == {(8, 32)} and (len(seen) == 1) == (free == "cut")

    spmd(4, check)


@pytest.mark.parametrize("free", [[[], []], [[], ["model"]], [["model"], []]])
def test_collectives_of_the_engine(spmd, free):
    def fn(x):
        ins, cut = sharding(["data", *free[0]], free[1]), sharding(["data"])
        moved, total = sg.manual(shifted_sum, [ins], [cut, sharding([], free[1])], ["data"])(x)
        return moved + 1, total * 2

    part = traced(fn, X)
    received = 8 * 32 * 8 // (2 if any(free) else 1)  # free axes cut what the body sends
    own = [each for each in part.collectives() if each.name in ("shift", "all_reduce")]
    assert own == [("shift", (0,), received), ("all_reduce", (0,), received)]
    moved, total = wanted_sum(X)

    def body():
        found = run(part, X)
        np.testing.assert_array_equal(gathered(found[0]), moved + 1)
        np.testing.assert_array_equal(gathered(found[1]), total * 2)

    spmd(4, body)


def test_at_once_on_sharded_arrays(spmd):
    def body():
        grid = sg.init_grid((2, 2), axis_names=["data", "model"])
        for held in (sharding([1], [0]), sharding(["data"]), sharding([], [], partial_axes=[0])):
            x = sg.from_global(X, held, grid)
            moved, total = sg.manual(shifted_sum, [sharding(["data"])], [sharding(["data"]), sharding()], ["data"])(x)
            np.testing.assert_array_equal(moved.to_global(), wanted_sum(X)[0])
            np.testing.assert_array_equal(total.to_global(), wanted_sum(X)[1])
            assert (moved.sharding, total.sharding) == (sharding(["data"]), sharding())

    spmd(4, body)


def test_a_body_that_has_the_grid_from_outside(spmd):
    def body():
        grid = sg.init_grid((2, 2), axis_names=["data", "model"])

        def fn(x, y):
            def product(block, other):
                return sg.all_reduce(block @ other, grid, ["model"])

            return sg.manual(product, [sharding([], ["model"]), sharding(["model"])], sharding(), ["model"])(x, y)

        part = traced(fn, X, Y)
        assert part.collectives() == [("all_reduce", (1,), 16 * 8 * 8)]
        np.testing.assert_allclose(gathered(run(part, X, Y)), X @ Y)

    spmd(4, body)


def collective_matmul(block, other, grid):
    """x @ y with y cut along the contracted dimension: its blocks go round, one product at a time."""
    n, total = grid.shape[1], 0
    index = grid.coords[1]
    for step in range(n):
        at = (index - step) % n
        columns = block.shape[1] // n
        cells = sg.all_slice(np.roll(block, -at * columns, axis=1), grid, [], 0)[:, :columns]
        total = total + cells @ other
        other = sg.shift(other, grid, ["model"], "model", 1, rotate=True)
    return total


def test_a_matmul_with_its_own_ring(spmd):
    ins, outs = [sharding(["data"]), sharding(["model"])], sharding(["data"])
    part = traced(lambda x, y: sg.manual(collective_matmul, ins, outs, [0, 1])(x, y), X, Y)
    assert part.collectives() == [("shift", (1,), 16 * 8 * 8)] * 2
    spmd(4, lambda: np.testing.assert_allclose(gathered(run(part, X, Y)), X @ Y))


def test_partial_results_and_halos(spmd):
    """A body may return contributions, and take blocks with the cells beside them."""

    def body(block):
        return block[2:] + block[:-2], block.sum(axis=0)[None][:, :1] * np.ones((1, 1))

    ins = sharding(["data"], halo_sizes=[1, 1])
    outs = [sharding(["data"]), sharding(partial_axes=["data"])]
    part = traced(lambda x: sg.manual(body, [ins], outs, ["data"])(x), X)
    padded = np.pad(X, ((1, 1), (0, 0)))

    def check():
        sums, total = run(part, X)
        np.testing.assert_array_equal(gathered(sums), padded[2:] + padded[:-2])
        inner = X[:9].sum(axis=0)[:1] + X[7:].sum(axis=0)[:1]
        np.testing.assert_array_equal(gathered(total), inner[None])

    spmd(4, check)


def outer_and_inner(x, grid=None):
    inner = sg.manual(
        lambda block, grid: block + sg.all_reduce(block, grid, ["model"]) + sg.all_reduce(block, grid, ["data"]),
        [sharding([], ["model"])],
        sharding([], ["model"]),
        ["model"],
    )
    return inner(2 * x)


def test_nesting_on_disjoint_axes(spmd):
    cut = sharding(["data"])
    program = lambda x: sg.manual(outer_and_inner, [cut], cut, ["data"])(x) + 1  # noqa: E731
    part = traced(program, X)
    names = [each.name for each in part.collectives()]
    assert names == ["all_reduce", "all_reduce", "all_gather"]
    twice = 2 * X
    left, right = twice[:, :16], twice[:, 16:]
    want = twice + np.tile(left + right, 2) + np.tile(twice[:8] + twice[8:], (2, 1)) + 1

    def body():
        np.testing.assert_array_equal(gathered(run(part, X)), want)
        grid = sg.init_grid((2, 2), axis_names=["data", "model"])
        np.testing.assert_array_equal(gathered(program(sg.from_global(X, cut, grid))), want)

    spmd(4, body)


def test_compiled_code_says_what_it_gives(spmd):
    def compiled(block):
        return np.asarray([[float(cell) for cell in row[:4]] for row in block])  # asks for cells

    cut = sharding(["data"])
    with pytest.raises(sg.ImplicitGatherError, match=r"turned into a number at .*test_manual.py:\d+"):
        traced(lambda x: sg.manual(compiled, [cut], cut, ["data"])(x), X)
    with pytest.raises(sg.ImplicitGatherError, match=r"asks for cells.*test_manual.py:\d+.*give out_specs=.*of %x: "):
        traced(lambda x: sg.manual(lambda block: np.asarray(block)[:, :4], [cut], cut, ["data"])(x), X)
    spec = sg.ArraySpec((16, 4))
    part = traced(lambda x: sg.manual(compiled, [cut], cut, ["data"], out_specs=spec, receives=7)(x), X)
    assert part.collectives() == [("manual", (0,), 7)]
    spmd(4, lambda: np.testing.assert_array_equal(gathered(run(part, X)), X[:, :4]))
    wrong = traced(lambda x: sg.manual(compiled, [cut], cut, ["data"], out_specs=sg.ArraySpec((16, 5)))(x), X)

    def body():
        with pytest.raises(sg.ShapeError, match=r"result 0 of compiled has shape \(8, 4\).*\(8, 5\)"):
            run(wrong, X)

    spmd(4, body)


def test_a_body_may_return_its_block(spmd):
    cut = sharding(["data"])
    part = traced(lambda x: [(y := sg.manual(lambda b: b[::-1], [cut], cut, ["data"])(x + 1)) + 1, y * 2][1] + y, X)
    flipped = np.concatenate([X[:8][::-1], X[8:][::-1]]) + 1
    spmd(4, lambda: np.testing.assert_array_equal(gathered(run(part, X)), 3 * flipped))


OTHER = sg.Sharding(sg.Grid((4,)), [[0]])
TURNED = sg.Sharding(sg.Grid((2, 2), axis_names=["data", "model"], ranks=[3, 2, 1, 0]), [["data"]])
DATA, MODEL = sharding(["data"]), sharding(["model"])


def same(block):
    return block


REFUSED = {
    "another grid": (lambda x: sg.manual(same, [DATA], OTHER, ["data"]), sg.GridError, r"out_shardings\[0\] is on"),
    "a grid of other ranks": (
        lambda x: sg.manual(same, [DATA], TURNED, ["data"]),
        sg.GridError,
        r"is on Grid\(.*ranks=\(3, 2, 1, 0\)\), and in_shardings\[0\] on Grid\(\(2, 2\), axis_names=[^r]*;",
    ),
    "order of axes": (
        lambda x: sg.manual(same, [DATA], DATA, ["model", "data"]),
        sg.AxisError,
        r"manual_axes is \['model', 'data'\].*\['data', 'model'\]",
    ),
    "axis twice": (lambda x: sg.manual(same, [DATA], DATA, [0, 0]), sg.AxisError, "twice"),
    "unknown axis": (lambda x: sg.manual(same, [DATA], DATA, ["z"]), sg.AxisError, "no axis 'z'"),
    "an axis that is left open": (
        lambda x: sg.manual(same, [sharding([sg.OPEN])], DATA, ["data"]),
        sg.ShardingError,
        r"in_shardings\[0\].*does not use manual axes \[0\]",
    ),
    "replicated and used": (
        lambda x: sg.manual(same, [(DATA, ["data"])], DATA, ["data"]),
        sg.AxisError,
        "explicitly replicated",
    ),
    "a free axis before a manual one": (
        lambda x: sg.manual(same, [sharding(["model", "data"])], DATA, ["data"]),
        sg.ShardingError,
        r"cut by \[1, 0\], where free axis 1 comes before",
    ),
    "uneven blocks": (
        lambda x: sg.manual(same, [DATA], DATA, ["data"])(x[1:]),
        sg.ShapeError,
        r"dimension 0 of in_shardings\[0\] has extent 15.*of %\d+: float64\[15, 32\], at .*test_manual.py:\d+",
    ),
    "offsets": (
        lambda x: sg.manual(same, [sharding(["data"], sharded_dims_offsets=[[0, 5, 16]])], DATA, ["data"]),
        sg.ShardingError,
        "blocks along manual axes are even",
    ),
    "no sharding": (lambda x: sg.manual(same, [None], DATA, ["data"]), sg.ShardingError, r"in_shardings\[0\] is None"),
    "too many dimensions": (
        lambda x: sg.manual(same, [sharding([], [], ["data"])], DATA, ["data"])(x),
        sg.ShardingError,
        r"of 3 dimensions; the array has 2 \(of %x: .*test_manual.py:\d+",
    ),
    "number of arrays": (lambda x: sg.manual(same, [DATA], DATA, ["data"])(x, x), sg.ShapeError, "2 arrays are given"),
    "number of results": (lambda x: sg.manual(same, [DATA], [DATA] * 2, ["data"])(x), sg.ShapeError, "same returns 1"),
    "an operation along a free axis": (
        lambda x: sg.manual(lambda b, grid: sg.all_reduce(b, grid, ["model"]), [DATA], DATA, ["data"])(x),
        sg.AxisError,
        r"grid_axes is \[1\].*it is global along \[1\]",
    ),
    "an operation along all axes": (
        lambda x: sg.manual(lambda b, grid: sg.all_reduce(b, grid), [DATA], DATA, ["data"])(x),
        sg.AxisError,
        r"global along \[1\]",
    ),
    "a result on the root alone": (
        lambda x: sg.manual(lambda b, grid: sg.gather(b, grid, [0], 0, [0]), [DATA], DATA, ["data"])(x),
        sg.ShardingError,
        "on the root of a gather or a reduce alone; broadcast or scatter it",
    ),
    "uneven blocks inside": (
        lambda x: sg.manual(lambda b, grid: sg.all_slice(b[1:], grid, [0], 0), [DATA], DATA, ["data"])(x),
        sg.ShapeError,
        "has extent 7, which 2 devices do not divide evenly",
    ),
    "nesting on one axis": (
        lambda x: sg.manual(lambda b: sg.manual(same, [DATA], DATA, ["data"])(b), [DATA], DATA, ["data"])(x),
        sg.AxisError,
        r"uses axes \[0\], which are manual in the body around it",
    ),
    "nesting that cuts by the outer axis": (
        lambda x: sg.manual(
            lambda b: sg.manual(same, [sharding(["model", "data"])], MODEL, ["model"])(b), [DATA], DATA, ["data"]
        )(x),
        sg.AxisError,
        r"uses axes \[0\]",
    ),
    "an annotation inside": (
        lambda x: sg.manual(lambda b: sg.constrain(b, DATA), [DATA], DATA, ["data"])(x),
        sg.ShardingError,
        "block of a manual computation",
    ),
    "halos of results": (
        lambda x: sg.manual(same, [DATA], sharding(["data"], halo_sizes=[1, 1]), ["data"]),
        sg.ShardingError,
        "have no halos",
    ),
    "no body": (lambda x: sg.manual(None, [DATA], DATA, ["data"]), sg.ShardingError, "body is None"),
    "numpy arrays": (
        lambda x: sg.manual(same, [DATA], DATA, ["data"])(np.ones((4, 4))),
        sg.DTypeError,
        "array 0 is ndarray",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invariants(case):
    function, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        sg.trace(lambda x: [function(x), x][1], sg.ArraySpec(X.shape, X.dtype, "x"))
