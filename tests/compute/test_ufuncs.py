"""Every ufunc of numpy, on uneven and empty blocks and with halos, with ``out=``, ``where=`` and ``dtype=``."""

import numpy as np
import pytest
from support.compute.layouts import gathered, growing, same

import spmd_grid as sg

UFUNCS = {each.__name__: each for each in vars(np).values() if isinstance(each, np.ufunc)}
CELLWISE = {name: ufunc for name, ufunc in UFUNCS.items() if ufunc.signature is None}
KINDS = ("d", "q", "?", "M8[s]")  # of operands: the first that a ufunc takes
SHAPE = (7, 3)


def operands_of(ufunc):
    """Arrays that numpy takes: positive numbers below 1 (above, for arccosh), small whole numbers, or dates."""
    small, scale = np.arange(21).reshape(SHAPE) * 5 % 7 + 1, 1 if ufunc is np.arccosh else 16
    for kind in KINDS:
        arrays = [(small + i) / scale if kind == "d" else (small + i).astype(kind) for i in range(ufunc.nin)]
        try:
            ufunc(*arrays)
        except TypeError:
            continue
        return arrays
    raise LookupError(ufunc)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6])
def test_every_ufunc(spmd, ranks):
    """On fewer ranks than 6 each is called once; there with all arguments."""

    def body():
        grid = sg.init_grid((ranks,))
        rows, halos, columns = growing(grid, SHAPE)
        for number, ufunc in enumerate(CELLWISE.values()):
            plain = operands_of(ufunc)
            chosen = [rows, halos, columns][number % 3], [halos, columns, rows][number % 3]
            arrays = [sg.from_global(x, sharding, grid) for x, sharding in zip(plain, chosen)]
            check(ufunc(*arrays), ufunc(*plain))
            if ranks == 6 and ufunc.nout == 1:
                check_arguments(ufunc, arrays, plain)

    spmd(ranks, body)


def check(found, want):
    if isinstance(want, tuple):
        for one, other in zip(found, want, strict=True):
            same(one, other)
    else:
        same(found, want)


def check_arguments(ufunc, arrays, plain):
    out, mask = ufunc(*arrays), np.arange(21).reshape(SHAPE) % 2 == 0
    want = gathered(out).copy()
    assert ufunc(*arrays, out=out) is out
    same(out, ufunc(*plain))
    out[...] = want.dtype.type(1)
    want[...] = want.dtype.type(1)
    same(ufunc(*arrays, out=out, where=mask), ufunc(*plain, out=want, where=mask))
    if plain[0].dtype == np.float64 and f"{'f' * ufunc.nin}->f" in ufunc.types:
        same(ufunc(*arrays, dtype="f4"), ufunc(*plain, dtype="f4"))


def test_ufuncs_of_vectors_and_matrices(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        x, y = np.arange(35.0).reshape(7, 5), np.arange(5.0)
        a = sg.from_global(x, sg.Sharding(grid, [[1], [0]]), grid)
        v = sg.from_global(y, sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 0, 5]]), grid)
        calls = {
            np.matmul: [(a, v), (x, y)],
            np.vecdot: [(a, v), (x, y)],
            np.matvec: [(a, v), (x, y)],
            np.vecmat: [(v, a.T), (y, x.T)],
        }
        assert {each.__name__ for each in calls} == UFUNCS.keys() - CELLWISE.keys()
        for ufunc, (ours, theirs) in calls.items():
            same(ufunc(*ours), ufunc(*theirs))

    spmd(6, body)
