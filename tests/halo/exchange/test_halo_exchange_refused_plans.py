"""Plans that a HaloExchange refuses: clearly, equally on all ranks, and with nobody left waiting."""

import numpy as np
import pytest
from support.halo.small_plans import SHAPE, N, check_it_works, make

import spmd_grid as sg


def refused(spmd, call, n=N):
    """The one error that all ranks raise; a collective and a new plan work afterwards."""

    def body():
        grid = sg.init_grid((n,))
        with pytest.raises(sg.SpmdError) as caught:
            call(grid)
        assert sg.all_reduce(1, grid, [0], "sum") == n
        with make(grid) as halo:
            check_it_works(grid, halo, again=2)
        return type(caught.value).__name__, str(caught.value)

    results = spmd(n, body)
    assert set(results) == {results[0]}, results
    return results[0]


BAD = {
    "no sharding": (lambda g: sg.HaloExchange(g, [[0]], SHAPE, "f8"), "GridError", "must be a Sharding"),
    "no grid": (lambda g: sg.HaloExchange(g.grid, sg.Sharding(g, [[0]]), SHAPE, "f8"), "GridError", ""),
    "None for a grid": (lambda g: sg.HaloExchange(None, sg.Sharding(g, [[0]]), SHAPE, "f8"), "GridError", ""),
    "other grid": (
        lambda g: sg.HaloExchange(g, sg.Sharding(sg.Grid((2, 2)), [[0]]), SHAPE, "f8"),
        "GridError",
        "(2, 2)",
    ),
    "negative width": (lambda g: make(g, halo_sizes=[1, -1]), "ShardingError", "-1"),
    "width no number": (lambda g: make(g, halo_sizes=[1, 1.5]), "ShardingError", "1.5"),
    "too many widths": (lambda g: make(g, halo_sizes=[1, 1, 1, 1]), "ShardingError", "halo_sizes"),
    "objects": (lambda g: make(g, dtype=object), "DTypeError", "object"),
    "objects in a field": (lambda g: make(g, dtype=[("a", "i2"), ("b", "O")]), "DTypeError", "object"),
    "no dtype": (lambda g: make(g, dtype="nonsense"), "DTypeError", "nonsense"),
    "no dtypes": (lambda g: make(g, dtype=[]), "DTypeError", "[]"),
    "too few dtypes": (lambda g: make(g, dtype=["f8", "f4"], n_fields=3), "DTypeError", "3"),
    "too many dtypes": (lambda g: make(g, dtype=["f8", "f4", "f4"], n_fields=2), "DTypeError", "2"),
    "one dtype of them": (lambda g: make(g, dtype=["f8", object]), "DTypeError", "object"),
    "no fields": (lambda g: make(g, n_fields=0), "ShapeError", "n_fields"),
    "fields below 0": (lambda g: make(g, n_fields=-2), "ShapeError", "-2"),
    "True fields": (lambda g: make(g, n_fields=True), "ShapeError", "n_fields"),
    "1.0 fields": (lambda g: make(g, n_fields=1.0), "ShapeError", "1.0"),
    "63 fields": (lambda g: make(g, n_fields=63), "ShapeError", "63"),
    "path": (lambda g: make(g, path="nonsense"), "TransportError", "nonsense"),
    "path no word": (lambda g: make(g, path=3), "TransportError", "3"),
    "corners": (lambda g: make(g, corners="no"), "ShapeError", "corners"),
    "periodic too short": (lambda g: make(g, periodic=[True]), "ShapeError", "periodic"),
    "periodic too long": (lambda g: make(g, periodic=[True, False, True]), "ShapeError", "periodic"),
    "periodic no bool": (lambda g: make(g, periodic=1), "ShapeError", "periodic"),
    "boundary": (lambda g: make(g, boundary="nonsense"), "ShardingError", "nonsense"),
    "boundary too short": (lambda g: make(g, boundary=["edge"]), "ShardingError", "boundary"),
    "boundary of three sides": (lambda g: make(g, boundary=["edge", (0, 0, 0)]), "ShardingError", "pair"),
    "boundary None": (lambda g: make(g, boundary=None), "ShardingError", "None"),
    "shape too short": (lambda g: make(g, [[], [0]], shape=(8,)), "ShardingError", "dimensions"),
    "shape below 0": (lambda g: make(g, shape=(8, -1)), "ShardingError", "-1"),
    "shape no list": (lambda g: make(g, shape=8), "ShardingError", "global_shape"),
    "shape no numbers": (lambda g: make(g, shape=(8, "x")), "ShardingError", "global_shape"),
    "shape None": (lambda g: make(g, shape=None), "ShardingError", "global_shape"),
    "offsets beyond": (
        lambda g: sg.HaloExchange(g, sg.Sharding(g, [[0]], sharded_dims_offsets=[0, 1, 2, 3, 9]), SHAPE, "f8"),
        "ShardingError",
        "cover",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_arguments_known_to_all(spmd, what):
    call, error, words = BAD[what]
    name, message = refused(spmd, call)
    assert name == error
    assert words in message


@pytest.mark.parametrize(
    ["boundary", "dtype"],
    [(1j, "f8"), (300, "i1"), (-1, "u2"), (float("nan"), "i4"), (0.5, "M8[s]"), (1e300, "f4")],
    ids=str,
)
def test_a_constant_that_the_dtype_cannot_hold(spmd, boundary, dtype):
    """As `sg.full` refuses it; and not by the ranks at the border alone."""
    name, message = refused(spmd, lambda grid: make(grid, dtype=dtype, boundary=boundary))
    assert name in ("DTypeError", "ShardingError")
    assert str(boundary) in message


def test_constants_that_fit(spmd):
    def body():
        grid = sg.init_grid((2,))
        for boundary, dtype, wanted in (
            (2.0, "i8", 2), (True, "f4", 1.0), (1j, "c8", 1j), (float("nan"), "f2", None), (255, "u1", 255),
            (np.float32(0.1), "f8", float(np.float32(0.1))), (0.1, "f4", np.float32(0.1)), (0, "?", False),
        ):  # fmt: skip
            with make(grid, shape=(4, 3), dtype=[dtype, dtype], boundary=boundary) as halo:
                u, v = np.zeros((4, 3), dtype), np.zeros((4, 3), dtype)
                halo.update(u, v)
                for x in u, v:
                    cell = x[0 if grid.rank == 0 else -1, 1]
                    assert cell != cell if wanted is None else cell == wanted

    spmd(2, body)


@pytest.mark.parametrize("culprits", [[0], [2], [1, 3], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("what", ["objects", "no fields", "path", "boundary", "shape below 0", "periodic too short"])
def test_arguments_that_one_rank_alone_has_wrong(spmd, what, culprits):
    def call(grid):
        if grid.rank in culprits:
            BAD[what][0](grid)
        else:
            make(grid)

    name, text = refused(spmd, call)
    assert name in (BAD[what][1], "MismatchError")
    assert any(f"rank {rank}" in text for rank in culprits)


def one(local, outside):
    pass


def two(local, outside):
    pass


# What one rank passes, and what others do.
DIFFERENT = {
    "halo_sizes": ({"halo_sizes": [1, 2]}, {"halo_sizes": [1, 1]}),
    "halo_sizes and none": ({"halo_sizes": [0, 0]}, {"halo_sizes": [0, 1]}),
    "shape": ({"shape": (8, 3)}, {"shape": (8, 4)}),
    "shape along the axis": ({"shape": (9, 3)}, {"shape": (8, 3)}),
    "number of dimensions": ({"shape": (8, 3, 1)}, {"shape": (8, 3)}),
    "dtype": ({"dtype": "f4"}, {"dtype": "f8"}),
    "byte order": ({"dtype": ">f8"}, {"dtype": "<f8"}),
    "as large": ({"dtype": "i8"}, {"dtype": "f8"}),
    "fields of dtypes": ({"dtype": [("a", "i4"), ("b", "f4")]}, {"dtype": [("a", "f4"), ("b", "i4")]}),
    "order of fields": ({"dtype": ["f4", "f8"]}, {"dtype": ["f8", "f4"]}),
    "n_fields": ({"n_fields": 2}, {"n_fields": 3}),
    "periodic": ({"periodic": True}, {"periodic": False}),
    "corners": ({"corners": False}, {"corners": True}),
    "boundary": ({"boundary": "edge"}, {"boundary": "reflect"}),
    "constant": ({"boundary": 1.0}, {"boundary": 2.0}),
    "constant and none": ({"boundary": 0.0}, {}),
    "functions": ({"boundary": one}, {"boundary": two}),
    "function and none": ({"boundary": [one, "leave"]}, {}),
    "path": ({"path": "message"}, {"path": "staged"}),
    "path and none": ({"path": "message"}, {}),
    "blocks": ({"blocks": "balanced"}, {"blocks": "ceil"}),
    "split dimension": ({"split_axes": [[], [0]]}, {"split_axes": [[0]]}),
}


def test_what_all_have_wrong_is_known_to_be_shared(spmd):
    """An error that no process catches is reported by one process for all."""

    def body():
        with pytest.raises(sg.ShardingError) as caught:
            make(sg.init_grid((N,)), boundary="nonsense")
        return caught.value.is_shared

    assert spmd(N, body) == N * [True]


@pytest.mark.parametrize("culprit", [0, 2])
@pytest.mark.parametrize("what", DIFFERENT)
def test_plans_that_differ(spmd, what, culprit):
    theirs, ours = DIFFERENT[what]
    name, message = refused(spmd, lambda grid: make(grid, **(theirs if grid.rank == culprit else ours)))
    assert name == "MismatchError"
    assert f"rank {culprit} ({culprit},)" in message and "rank 1 (1,)" in message
    assert message.count("HaloExchange") >= 2


def test_another_operation_on_one_rank(spmd):
    def call(grid):
        if grid.rank == 1:
            sg.all_reduce(1, grid, [0], "sum")
        else:
            make(grid)

    name, message = refused(spmd, call)
    assert name == "MismatchError"
    assert "all_reduce" in message and "HaloExchange" in message


def test_plans_need_not_be_alike_across_axes_that_do_not_split(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        sharding = sg.Sharding(grid, [[1]], halo_sizes=[1, grid.coords[0]])
        with sg.HaloExchange(grid, sharding, (4,), "f8" if grid.coords[0] else "f4") as halo:
            u = np.full(halo.layout.local_shape(grid.coords), float(grid.rank), halo.dtypes[0])
            halo.update(u)
        return u.tolist()

    assert spmd(4, body) == [[0, 0, 0], [0, 1, 1], [2, 2, 2, 3], [2, 3, 3, 3]]


def test_a_closed_grid():
    def body():
        with sg.init_grid((1,)) as grid:
            sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with pytest.raises(sg.GridError, match="closed"):
            sg.HaloExchange(grid, sharding, (3,), "f8")

    sg.run_spmd(body, ranks=1)
