"""A failure of one process that nobody foresees: the next operation tells all others, whichever it is."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.ops.outcome import note_failure


def spread(x, grid, **halos):
    return sg.from_global(np.asarray(x), sg.Sharding(grid, [[0]], **halos), grid)


def fails(grid):
    """A function in which the last rank alone gets no memory."""
    if grid.rank == grid.size - 1:
        error = MemoryError("no more of it")
        note_failure(grid, "add", error)
        note_failure(grid, "add", error)  # as functions that call one another do


LATER = {
    "reduction": lambda a, grid: a.sum(),
    "gather": lambda a, grid: a.to_global(),
    "function": lambda a, grid: a + np.roll(a, 1),
    "slice": lambda a, grid: a[3:] + 0,
    "all_reduce": lambda a, grid: sg.all_reduce(np.ones(3), grid, [0], "sum"),
    "started": lambda a, grid: sg.all_reduce.start(np.ones(3), grid, [0], "sum").wait(),
    "plan": lambda a, grid: sg.all_reduce.plan(grid, (3,), "f8", [0], "sum"),
    "array": lambda a, grid: spread(np.arange(6.0), grid),
    "halos": lambda a, grid: a.update_halo(),
}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("later", LATER)
def test_the_next_operation_tells_all(spmd, later, ranks):
    def body():
        grid = sg.init_grid((ranks,), check=False)
        a = spread(np.arange(6.0), grid, halo_sizes=[1, 1])
        for _ in range(2):
            LATER[later](a, grid)
            fails(grid)
            culprit = (
                rf"rank {ranks - 1} \({ranks - 1},\): failed\(.*MemoryError in add at test_failures.*no more of it"
            )
            with pytest.raises(sg.MismatchError, match=culprit):
                LATER[later](a, grid)
        LATER[later](a, grid)
        return a.sum(), a.to_global().tolist()

    assert spmd(ranks, body) == [(15.0, [*range(6)])] * ranks


def test_failures_of_all_are_no_mismatch(spmd):
    """All have failed in the same operation, with texts of their own; the program goes on."""

    def body():
        grid = sg.init_grid((2,), check=False)
        a = spread([1, 2, 3, 4], grid)
        for _ in range(3):
            with pytest.raises(TypeError):
                np.sum(a, no_such_option=object())
            note_failure(grid, "add", MemoryError(f"of rank {grid.rank}"))
        return a.sum()

    assert spmd(2, body) == [10, 10]


def test_failures_in_different_operations(spmd):
    def body():
        grid = sg.init_grid((2,), check=False)
        note_failure(grid, f"function {grid.rank}", ValueError("of a cell"))
        with pytest.raises(
            sg.MismatchError, match=r"ValueError in function 0(.|\n)*ValueError in function 1"
        ) as caught:
            sg.all_reduce(np.ones(1), grid, [0], "sum")
        return str(caught.value), sg.all_reduce(np.ones(1), grid, [0], "sum").tolist()

    first, second = spmd(2, body)
    assert first == second and first[1] == [2.0]


def test_a_warning_that_is_an_error_on_one_process(spmd):
    """It is raised there; what the others computed is theirs, until the next operation."""

    def body():
        grid = sg.init_grid((2,), check=False)
        a = spread([1.0, 2, 3, -1], grid)
        if grid.rank:
            with pytest.raises(RuntimeWarning, match="invalid value"):
                np.log(a)
        else:
            np.log(a)
        with pytest.raises(sg.MismatchError, match=r"rank 1 \(1,\): failed.*RuntimeWarning in log"):
            a.sum()
        return a.sum()

    assert spmd(2, body) == [5.0, 5.0]


def test_an_error_in_a_part_of_a_reduction(spmd):
    """The other processes of the reduction hear of it in its own meeting."""

    def body():
        grid = sg.init_grid((2,), check=False)
        a = spread([1.0, 2, 3, 4], grid)
        a.sum()
        for course in grid.functions.values():
            course._course._local = _failing_on_rank_1(grid, course._course._local)
        with pytest.raises(OverflowError, match=r"too much \(on rank 1 \(1,\)\)"):
            a.sum()
        grid.functions.clear()
        return a.sum()

    assert spmd(2, body) == [10.0, 10.0]


def _failing_on_rank_1(grid, local):
    def fragile(*blocks):
        if grid.rank == 1:
            raise OverflowError("too much")
        return local(*blocks)

    return fragile
