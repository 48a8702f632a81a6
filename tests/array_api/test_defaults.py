"""Places of new arrays in the namespace: named, by default, or as of another array; and refusals."""

import numpy as np
import pytest

import spmd_grid as sg

xp = sg.array_api


def test_longest_dimension(spmd):
    def body():
        grid = sg.init_grid((3, 1))
        with sg.use_sharding_defaults(grid):
            return [xp.zeros(shape).sharding.split_axes for shape in ((), (4,), (4, 4), (2, 3, 7))]

    assert spmd(3, body)[1] == [(), ((0, 1),), ((0, 1),), ((), (), (0, 1))]


def test_defaults_end_and_nest(spmd):
    def body():
        grid = sg.init_grid((3,))
        rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]], blocks="balanced")
        with sg.use_sharding_defaults(grid, rows):
            first = xp.ones((2, 5)).sharding
            with sg.use_sharding_defaults(grid, columns):
                second, line, number = xp.ones((2, 5)).sharding, xp.ones(5).sharding, xp.asarray(1.0).sharding
            third = xp.ones((2, 5)).sharding
        assert first == third == rows and second == columns
        assert line.split_axes == number.split_axes == ()
        with pytest.raises(sg.GridError, match=r"ones: no grid is given.*use_sharding_defaults"):
            xp.ones(3)

    spmd(3, body)


def test_named_places(spmd):
    def body():
        grid, other = sg.init_grid((3,)), sg.init_grid((1, 3))
        halos = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        plain = np.arange(7.0)
        a = xp.asarray(plain, sharding=halos, grid=grid)
        assert a.sharding == halos
        like = xp.zeros_like(a)
        assert like.sharding == sg.Sharding(grid, [[0]]) and like.grid is grid
        on_other = xp.asarray(a, sharding=sg.Sharding(other, [[1]]), grid=other)
        assert on_other.grid is other and on_other.to_global().tolist() == plain.tolist()
        assert xp.ones_like(a, grid=other).sharding.split_axes == ((0, 1),)
        assert xp.asarray(a) is a and xp.asarray(a, copy=True) is not a
        assert xp.from_dlpack(plain, grid=grid).to_global().tolist() == plain.tolist()
        assert xp.from_dlpack(a) is a

    spmd(3, body)


REFUSED = {
    "no grid": (lambda g, a: xp.zeros(3), sg.GridError, "zeros: no grid is given"),
    "rule": (lambda g, a: xp.zeros(3, grid=g, sharding="rows"), sg.ShardingError, "zeros: sharding is 'rows'"),
    "default": (
        lambda g, a: sg.use_sharding_defaults(g, sg.Sharding(g, [[0]], halo_sizes=[1, 1])).__enter__(),
        sg.ShardingError,
        "it must have no offsets, halos and partial axes",
    ),
    "rule of another grid": (
        lambda g, a: xp.zeros(3, grid=g, sharding=lambda shape: sg.Sharding(sg.Grid((1, 3)), [[0]])),
        sg.GridError,
        "zeros: the sharding is on",
    ),
    "too few dimensions": (
        lambda g, a: xp.zeros(3, grid=g, sharding=sg.Sharding(g, [[], [0]])),
        sg.ShardingError,
        "dimension",
    ),
    "device": (lambda g, a: xp.zeros(3, grid=g, device="gpu"), ValueError, "zeros: device is 'gpu'"),
    "plain array": (lambda g, a: xp.sin(np.ones(3)), sg.DTypeError, "sin: an argument is ndarray"),
    "plain operand": (lambda g, a: xp.add(a, np.ones(7)), sg.DTypeError, "add: an argument is ndarray"),
    "no array": (lambda g, a: xp.add(1, 2), sg.DTypeError, r"add: the operands are \(1, 2\)"),
    "copy": (lambda g, a: xp.asarray([1, 2], copy=False, grid=g), ValueError, "asarray: copy is False"),
    "reshape in place": (lambda g, a: xp.reshape(a, (7, 1), copy=False), ValueError, "reshape: copy is False"),
    "step": (lambda g, a: xp.arange(1, 2, 0, grid=g), ValueError, "arange: step is 0"),
    "num": (lambda g, a: xp.linspace(1, 2, -3, grid=g), sg.ShapeError, "linspace: num is -3"),
    "imaginary parts": (lambda g, a: xp.astype(a * 1j, xp.float64), sg.DTypeError, "no imaginary part"),
    "flat sum of a matrix": (lambda g, a: xp.cumulative_sum(a[:, None]), sg.AxisError, "cumulative_sum: axis is None"),
    "axis of vecdot": (lambda g, a: xp.vecdot(a, a, axis=0), sg.AxisError, "vecdot: axis is 0"),
    "matrix of a vector": (lambda g, a: a.mT, sg.ShapeError, "mT: the array has shape"),
    "truth": (lambda g, a: bool(a), sg.ImplicitGatherError, "np.all or np.any"),
    "float": (lambda g, a: float(a), sg.ImplicitGatherError, r"shape \(7,\) is not one number"),
    "index": (lambda g, a: [1, 2][xp.sum(a)], TypeError, "it must hold a whole number"),
    "DLPack": (lambda g, a: np.from_dlpack(a), sg.ImplicitGatherError, "one process holds"),
    "version": (lambda g, a: a.__array_namespace__(api_version="1999.01"), ValueError, "api_version is '1999.01'"),
    "axis as an index": (lambda g, a: xp.expand_dims(a, axis=5), IndexError, "expand_dims: axis is 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(spmd, case):
    call, kind, words = REFUSED[case]

    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: 1.0 * i, (7,), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(kind, match=words):
            call(grid, a)
        return a.sum()  # the processes still agree on what comes next

    assert spmd(3, body) == [21.0] * 3


def test_namespace_of_an_array(spmd):
    def body():
        grid = sg.init_grid((3,))
        a = xp.ones((7,), grid=grid)
        found = a.__array_namespace__()
        info = found.__array_namespace_info__()
        assert found is xp and a.__array_namespace__(api_version="2024.12") is xp
        assert a.device == info.default_device() == info.devices()[0] and a.to_device(a.device) is a
        assert info.default_dtypes()["real floating"] == a.dtype
        assert sorted(info.dtypes(kind="unsigned integer")) == ["uint16", "uint32", "uint64", "uint8"]

    spmd(3, body)
