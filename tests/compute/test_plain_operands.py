"""Plain operands that differ between processes are an error on all of them in checking mode."""

import numpy as np
import pytest

import spmd_grid as sg

CASES = {
    "number": (lambda a, r: a + r, "add"),
    "number first": (lambda a, r: 1.5 * r / a, "divide"),
    "array": (lambda a, r: np.maximum(a, np.arange(5.0) * r), "maximum"),
    "option": (lambda a, r: np.sum(a, axis=r), "sum"),
    "argument of a composite": (lambda a, r: np.roll(a, r, 0), "roll"),
    "index": (lambda a, r: a[r:], "getitem"),
    "list": (lambda a, r: a[[1, r]], "getitem"),
    "mask": (lambda a, r: a[np.arange(35).reshape(7, 5) > r], "getitem"),
    "value": (lambda a, r: a.__setitem__(0, r), "setitem"),
    "method": (lambda a, r: a.sum(axis=r), "sum"),
    "long": (lambda a, r: a[list(range(5)) * 30 + [r]], "getitem"),
}


@pytest.mark.parametrize("case", CASES)
def test_operands_that_differ(case):
    function, name = CASES[case]

    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i, j: 1.0 + i + j, (7, 5), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(sg.MismatchError, match=rf"rank 1 \(1,\): {name}\(") as caught:
            function(a, int(grid.rank == 1))
        function(a, 1)  # equal ones are accepted
        return str(caught.value)

    assert len(set(sg.run_spmd(body, ranks=3))) == 1


def test_unchecked_programs_compare_nothing():
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: i * 1.0, (7,), sg.Sharding(grid, [[0]]), grid)
        return (a + grid.rank).core.tolist()

    assert sg.run_spmd(body, ranks=3, check=False) == [[0, 1, 2], [4, 5, 6], [8]]
