"""Copies of arrays and of what they are made of, as copy and pickle make them."""

import copy
import pickle

import numpy as np
import pytest

import spmd_grid as sg

N = 8


def array_of(grid, halos=(1, 1)):
    return sg.from_global(np.arange(1.0 * N), sg.Sharding(grid, [[0]], halo_sizes=list(halos)), grid, name="x")


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda x: copy.deepcopy({"x": x})["x"]])
def test_a_copy_is_independent(spmd, make):
    def body():
        x = array_of(sg.init_grid((-1,)))
        y = make(x)
        assert y.layout == x.layout and y.name == "x" and y.local.tolist() == x.local.tolist()
        assert not np.may_share_memory(x.stored, y.stored)
        y += 100
        y[0:4] = -1
        x[5:] *= 2
        want = np.arange(1.0 * N)
        want[5:] *= 2
        assert (x[1:] - x[:-1]).to_global().tolist() == np.diff(want).tolist()
        assert (y[1:] - y[:-1]).to_global().tolist() == np.diff([-1.0] * 4 + [104.0, 105, 106, 107]).tolist()

    spmd(3, body)


def test_a_copy_of_a_view_has_no_source(spmd):
    def body():
        x = array_of(sg.init_grid((-1,)))
        v = x[1:]
        x += 1
        w = copy.copy(v)
        w += 1
        x += 1
        assert w.to_global().tolist() == np.arange(3.0, N + 2).tolist()
        assert v.to_global().tolist() == x.to_global()[1:].tolist() == np.arange(3.0, N + 2).tolist()

    spmd(2, body)


def test_references_to_one_array_stay_references_to_one(spmd):
    def body():
        grid = sg.init_grid((-1,))
        x = array_of(grid)
        with sg.HaloExchange(grid, x.sharding, x.shape, x.dtype) as halo:
            found = copy.deepcopy({"x": [x, x], "grid": grid, "layout": x.layout, "halo": halo})
            assert found["x"][0] is found["x"][1] and found["x"][0] is not x
            assert found["grid"] is grid and found["halo"] is halo and found["layout"] == x.layout
            assert copy.copy(grid) is grid and copy.copy(halo) is halo

    spmd(2, body)


def test_a_copied_generator_draws_the_same_numbers(spmd):
    def body():
        x = array_of(sg.init_grid((-1,)))
        generator = sg.random.Generator(5)
        generator.random(x.shape, x.sharding, x.grid)
        again = copy.deepcopy(generator), copy.copy(generator), pickle.loads(pickle.dumps(generator))
        want = generator.random(x.shape, x.sharding, x.grid).to_global()
        for each in again:
            np.testing.assert_array_equal(each.random(x.shape, x.sharding, x.grid).to_global(), want)

    spmd(2, body)


def test_what_is_not_pickled_says_what_to_do_instead(spmd):
    def body():
        grid = sg.init_grid((-1,))
        x = array_of(grid)
        with pytest.raises(sg.ImplicitGatherError, match=r"cannot be pickled.*to_global\(\) gathers.*save writes"):
            pickle.dumps(x)
        with sg.HaloExchange(grid, x.sharding, x.shape, x.dtype) as halo:
            with pytest.raises(TypeError, match="a HaloExchange is bound to running processes and cannot be pickled"):
                pickle.dumps(halo)

    spmd(2, body)
