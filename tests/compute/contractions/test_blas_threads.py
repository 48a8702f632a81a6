"""OpenBLAS has as many threads as a process has cores of its own, from the first product of large blocks on."""

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
    blas_threads._limit.cache_clear()
    yield seen
    blas_threads._limit.cache_clear()


@pytest.mark.parametrize("in_program", [False, True])
@pytest.mark.parametrize(("cores", "wanted"), [(1, [4, 1]), (3, [4, 3]), (4, [4]), (0, [4])])
def test_products(spmd, threads, monkeypatch, cores, wanted, in_program):
    x = np.random.default_rng(0).random((SIDE, SIDE))

    def body():
        grid = sg.init_grid((-1,))
        monkeypatch.setattr(grid.process, "cores", cores)
        a = sg.from_global(x, sg.Sharding(grid, [[0]]), grid)
        small = sg.from_global(x[:9, :9], sg.Sharding(grid, [[0]]), grid)
        assert np.allclose((small @ small).to_global(), x[:9, :9] @ x[:9, :9])
        assert np.isclose((a + a).sum(), 2 * x.sum())
        assert threads == [4]
        for _ in range(2):
            if in_program:
                program = sg.trace(lambda y: y @ y, sg.ArraySpec((SIDE, SIDE)))
                found = sg.partition(program, grid, [sg.Sharding(grid, [[0]])]).run(grid, a)
            else:
                found = a @ a
            assert np.allclose(found.to_global(), x @ x)
        assert threads == wanted

    spmd(1, body)


def test_who_sets_the_number_of_threads_is_left_alone(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    calls = blas_threads._openblas.__wrapped__()
    if calls is None:
        pytest.skip("numpy has another library, or one without threads")
    get, set_to = calls
    before = get()
    set_to(1)
    assert get() == 1
    set_to(before)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert blas_threads._openblas.__wrapped__() is None


def test_shares_of_cores(spmd):
    """Together, processes that may use the same cores have no more threads than these."""

    def body():
        return sg.init_grid((-1,)).process.cores

    shares = spmd(3, body)
    assert shares == [0] * 3 or (min(shares) > 0 and sum(shares) <= max(len(os.sched_getaffinity(0)), 3))
