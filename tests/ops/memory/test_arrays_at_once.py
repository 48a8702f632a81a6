"""Arrays that callers write to right after a call, and ``out`` that changes from one call to the next."""

import numpy as np
import pytest
from support.ops.refused_calls import GOOD, X, caught

import spmd_grid as sg

# Of arrays of these sizes each of three members folds a slice, and copies the other slices out of the others' results.
SIZES = [8_000, 320_000]


@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_a_result_may_be_written_over_at_once(spmd, path, dtype):
    """Others may still copy from it: nobody has it back before they have."""

    def body():
        grid = sg.init_grid((3,))
        right = []
        for step in range(8):
            for n in SIZES:
                x = np.full(n, grid.rank + step, dtype)
                result = sg.all_reduce(x, grid, [0], "sum")
                right.append((result == 3 + 3 * step).all())
                result[...] = -1
        return all(right)

    assert spmd(3, body) == [True] * 3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_result_may_be_written_over_at_once_in_any_order(seed):
    def body():
        grid = sg.init_grid((3,))
        found = []
        for step in range(4):
            result = sg.all_reduce(np.full(3001, float(grid.rank + step)), grid, [0], "sum")
            found.append(np.unique(result).tolist())
            result[...] = -1
        return found

    assert sg.run_spmd(body, ranks=3, seed=seed) == 3 * [[[3.0 + 3 * step] for step in range(4)]]


@pytest.mark.parametrize("op", ["all_gather", "all_reduce", "all_to_all", "broadcast", "shift"])
def test_out_that_overlaps_only_the_second_time(spmd, path, op):
    """Arrays of shapes and dtypes that have been seen before are looked at no less."""
    args = GOOD[op] | ({"rotate": True} if op == "shift" else {})

    def body():
        grid = sg.init_grid((2, 1))
        function = getattr(sg, op)
        shape = function(X, grid, [0], **args).shape
        memory = np.zeros(2 * max(X.size, int(np.prod(shape))))
        first, second = memory[: int(np.prod(shape))].reshape(shape), memory[-int(np.prod(shape)) :].reshape(shape)
        x = memory[: X.size].reshape(X.shape)
        outs = [second, first if grid.rank == 0 else second, second]
        return [caught(function, x, grid, [0], **args, out=out) for out in outs], int(sg.all_reduce(1, grid, [0]))

    first, second = spmd(2, body)
    assert first == second and first[1] == 2
    fine, refused, again = first[0]
    assert fine is again is None and refused[0] == "OutputError" and "overlaps x" in refused[2]
