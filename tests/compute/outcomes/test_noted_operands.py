"""Plain operands and indices that differ between processes are an error outside checking mode too, if a later one."""

import numpy as np
import pytest

import spmd_grid as sg


def spread(x, grid):
    return sg.from_global(np.asarray(x), sg.Sharding(grid, [[0]]), grid)


DIFFERENT = {
    "array": (lambda a, r: a + np.arange(8.0) * (1 + r), r"add\("),
    "array first": (lambda a, r: np.arange(8.0) * (1 + r) - a, r"subtract\("),
    "function": (lambda a, r: np.maximum(a, np.full(8, r)), r"maximum\("),
    "contraction": (lambda a, r: a @ (np.arange(8.0) + r), r"matmul\("),
    "number": (lambda a, r: a[2 + r], r"getitem\("),
    "slice": (lambda a, r: a[r : r + 2], r"getitem\("),
    "list": (lambda a, r: a[[r, 7]], r"getitem\("),
    "mask": (lambda a, r: a[np.arange(8) > r], r"getitem\("),
    "write": (lambda a, r: a.__setitem__(r, -1.0), r"setitem\("),
    "value": (lambda a, r: a.__setitem__(3, float(r)), r"setitem\("),
    "replicated array": (
        lambda a, r: sg.from_global(np.arange(3.0) + r, sg.Sharding(a.grid, [[]]), a.grid),
        r"from_global\(",
    ),
}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", DIFFERENT)
def test_operands_that_differ(spmd, case, ranks):
    function, name = DIFFERENT[case]

    def body():
        grid = sg.init_grid((ranks,), check=False)
        a = spread(10.0 * np.arange(8), grid)
        with pytest.raises(sg.MismatchError, match=rf"rank 1 \(1,\): plain operands\(.*{name}.*test_noted") as caught:
            function(a, grid.rank)
            a.to_global()  # the next meeting, if that has had none
        b = spread(np.arange(8.0), grid)
        function(b, 1)  # equal ones are accepted
        return str(caught.value), (b + 1).to_global().shape

    by_rank = spmd(ranks, body)
    assert len({str(each) for each in by_rank}) == 1


def test_the_first_calls_and_some_later_ones_are_compared(spmd):
    def body():
        grid = sg.init_grid((2,), check=False)
        a, seen = spread(np.zeros(8), grid), []
        for k in range(1, 20):
            p = np.ones(8) * (1 + grid.rank * (k > 10))
            a = a + p
            try:
                a.sum()
            except sg.MismatchError:
                seen.append(k)
        return seen

    # After an error nothing counts as known, so that the next call is a first one.
    assert spmd(2, body) == [[16, 17, 18, 19]] * 2


def test_equal_operands_of_any_kind_are_accepted(spmd):
    def body():
        grid = sg.init_grid((2,), check=False)
        a = spread(10.0 * np.arange(8), grid)
        for i in range(8):
            a[i] = a[i] + float(i)
            a[i:] = a[i:] * np.arange(8.0)[i:]
        a[[1, 2]] = [7.0, 8]
        a[np.arange(8) > 5] = 0
        return a.to_global().tolist()

    first, second = spmd(2, body)
    assert first == second


def test_groups_that_are_no_whole_grid_compare_nothing(spmd):
    """Messages between two processes do not wait for the others, which have nothing more to do."""

    def body():
        grid = sg.init_grid((3,), check=False)
        a = spread(np.arange(6.0), grid) + np.arange(6.0)
        if grid.rank == 0:
            sg.send(np.ones(2), grid, [0], [1])
        elif grid.rank == 1:
            return sg.recv(grid, [0], [0]).tolist(), a.core.tolist()
        return None

    assert spmd(3, body)[1] == ([1.0, 1.0], [4.0, 6.0])


def test_large_operands_are_compared_by_some_cells(spmd):
    def body():
        grid = sg.init_grid((2,), check=False)
        a = spread(np.zeros(5000), grid)
        a + np.random.default_rng(grid.rank).random(5000)
        with pytest.raises(sg.MismatchError, match="plain operands"):
            a.sum()
        return a.sum()

    assert spmd(2, body) == [0, 0]


@pytest.mark.parametrize(
    "dtype", ["g", "G", np.dtype([("a", "i1"), ("b", "f8")], align=True)], ids=["g", "G", "record"]
)
def test_padding_does_not_count(spmd, dtype):
    """Of two arrays of equal cells, whose bytes between them differ."""

    def body():
        grid = sg.init_grid((2,), check=False)
        array = np.frombuffer(bytes([grid.rank + 1]) * np.dtype(dtype).itemsize, dtype).copy()
        array[...] = np.ones(1, dtype) if array.dtype.names else 1
        if array.dtype.names:
            array["a"], array["b"] = 1, 2
        a = sg.from_global(array, sg.Sharding(grid, []), grid)
        return a.to_global().tolist() == array.tolist()

    assert spmd(2, body) == [True, True]
