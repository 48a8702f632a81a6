"""OpenBLAS has as many threads as a process has cores of its own, within large products of our arrays alone."""

import os

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.compute import blas_threads

SIDE = 160


@pytest.fixture
def threads(monkeypatch):
    """The settings of a library that stands for OpenBLAS, which has four threads; the last is how many it has."""
    seen = [4]
    monkeypatch.setattr(blas_threads, "_openblas", lambda: (lambda: seen[-1], seen.append))
    blas_threads._threads.cache_clear()
    yield seen
    blas_threads._threads.cache_clear()


@pytest.mark.parametrize(("cores", "wanted"), [(1, [4, 1, 4]), (3, [4, 3, 4]), (4, [4]), (0, [4])])
def test_products(spmd, threads, monkeypatch, cores, wanted):
    x = np.random.default_rng(0).random((SIDE, SIDE))

    def body():
        grid = sg.init_grid((-1,))
        monkeypatch.setattr(grid.process, "cores", cores)
        a = sg.from_global(x, sg.Sharding(grid, [[0]]), grid)
        small = sg.from_global(x[:9, :9], sg.Sharding(grid, [[0]]), grid)
        small @ small, a + a, a.sum()
        assert threads == [4]
        assert np.allclose((a @ a).to_global(), x @ x)
        assert threads == wanted
        with pytest.raises(sg.errors.OutputError):
            np.matmul(a, a, out=sg.zeros((SIDE, SIDE), sg.Sharding(grid, [[], [0]]), grid))
        assert threads[-1] == 4
        program = sg.trace(lambda y: np.exp(y @ y), sg.ArraySpec((SIDE, SIDE)))
        sg.partition(program, grid, [sg.Sharding(grid, [[0]])]).run(grid, a)
        assert threads == [*wanted, *wanted[1:]]

    spmd(1, body)


def test_several_within(threads):
    within = blas_threads._threads(2)
    with within:
        with within:
            assert threads == [4, 2]
        assert threads == [4, 2]
        with pytest.raises(ZeroDivisionError), within:
            raise ZeroDivisionError
    assert threads == [4, 2, 4]


def test_the_real_one(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    calls = blas_threads._openblas.__wrapped__()
    if calls is None:
        pytest.skip("numpy has another library, or one without threads")
    get, _ = calls
    before = get()
    with blas_threads._Threads(calls, 1):
        assert get() == 1
    assert get() == before
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert blas_threads._openblas.__wrapped__() is None


def test_shares_of_cores(spmd):
    """Together, processes that may use the same cores have no more threads than these."""

    def body():
        return sg.init_grid((-1,)).process.cores

    shares = spmd(3, body)
    assert shares == [0] * 3 or (min(shares) > 0 and sum(shares) <= max(len(os.sched_getaffinity(0)), 3))
