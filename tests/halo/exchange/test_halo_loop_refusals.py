"""Arrays and plans that compiled loops must not bring: refused as strictly as outside of loops."""

import sys

import numba
import numpy as np
import pytest
from support.compiled import compiled
from support.halo.loops import heat, once, pair
from support.jobs import check_fine

import spmd_grid as sg


def read_only(x):
    x.flags.writeable = False
    return x


WRONG = {
    "dtype": (lambda: np.zeros((4, 3), "f4"), "DTypeError", "float64"),
    "fewer dimensions": (lambda: np.zeros(12), "ShapeError", "(4, 3)"),
    "shape": (lambda: np.zeros((3, 4)), "ShapeError", "(4, 3)"),
    "every second column": (lambda: np.zeros((4, 6))[:, ::2], "OutputError", "contiguous"),
    "Fortran": (lambda: np.zeros((4, 3), order="F"), "OutputError", "contiguous"),
    "read-only": (lambda: read_only(np.zeros((4, 3))), "OutputError", "read-only"),
}
MANY_RANKS, CULPRIT, UNTOUCHED_BY_IT = 4, 1, 3


def plan_on_a_line(path, n=MANY_RANKS, n_fields=1, **options):
    grid = sg.init_grid((n,))
    sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    return grid, sg.HaloExchange(grid, sharding, (2 * n, 3), "f8", n_fields=n_fields, path=path, **options)


def check_it_works(grid, halo, *more):
    """The next update is right."""
    u = np.full((4, 3), 1.0 + grid.rank)
    u[0] = u[-1] = 0
    once(halo, u) if not more else pair(halo, u, *more)
    assert u[:, 1].tolist() == [grid.rank, grid.rank + 1, grid.rank + 1, (grid.rank + 2) % (grid.size + 1)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("what", WRONG)
def test_wrong_arrays(spmd, what, path):
    """The culprit and the ranks that wait for it raise alike, all others go on, and the arrays are as they were."""
    make, error, words = WRONG[what]

    def body(partners_in_python):
        grid, halo = plan_on_a_line(path)
        results = []
        for _ in range(3):
            u = np.full((4, 3), 1.0 + grid.rank)
            given = make() if grid.rank == CULPRIT else u
            try:
                halo.update(given) if partners_in_python and grid.rank != CULPRIT else once(halo, given)
                results.append(None)
                assert grid.rank == UNTOUCHED_BY_IT
            except sg.SpmdError as caught:
                results.append((type(caught).__name__, str(caught)))
                assert (u == 1 + grid.rank).all()
                assert (given == (0 if grid.rank == CULPRIT else 1 + grid.rank)).all()
            check_it_works(grid, halo)
        halo.close()
        return results

    for in_python in False, True:
        by_rank = spmd(MANY_RANKS, body, in_python)
        assert by_rank[UNTOUCHED_BY_IT] == [None] * 3
        assert by_rank[0] == by_rank[1] == by_rank[2]
        for name, message in by_rank[1]:
            assert name == error and words in message and "in compiled code" in message, message
            assert f"rank {CULPRIT}" in message


def test_wrong_number_of_fields(in_any_order, path):
    def body():
        grid, halo = plan_on_a_line(path, 2, n_fields=2)
        u, v = np.ones((4, 3)), np.ones((4, 3))
        with pytest.raises(sg.ShapeError, match="1 fields in compiled code; the plan is for 2"):
            once(halo, u) if grid.rank == 0 else pair(halo, u, v)
        with pytest.raises(sg.ShapeError, match=r"field 1 in compiled code is not of the local shape \(4, 3\)"):
            pair(halo, u, np.ones((5, 3)) if grid.rank == 0 else v)
        check_it_works(grid, halo, v)
        halo.close()

    in_any_order(2, body)


@compiled(nogil=True)
def wrong_on_the_way(halo, u, bad, when, n):
    for step in range(n):
        u[1:-1] = step
        if step == when:
            halo.update(bad)
        else:
            halo.update(u)


def test_wrong_on_the_way(in_any_order, path):
    """The loop ends with the error; what it did before is done."""

    def body():
        grid, halo = plan_on_a_line(path, 2)
        u = np.zeros((4, 3))
        bad = np.zeros((3, 3)) if grid.rank == 1 else u
        with pytest.raises(sg.ShapeError, match="rank 1"):
            wrong_on_the_way(halo, u, bad, 6, 10)
        assert u[:, 0].tolist() == ([0, 6, 6, 5] if grid.rank == 0 else [5, 6, 6, 0])
        check_it_works(grid, halo)
        halo.close()

    in_any_order(2, body)


def test_two_culprits(in_any_order, path):
    """All hear of the lower one, those beside the other too."""

    def body():
        grid, halo = plan_on_a_line(path)
        given = {0: np.zeros((4, 3), "f4"), 2: np.zeros((3, 4))}.get(grid.rank, np.zeros((4, 3)))
        with pytest.raises((sg.ShapeError, sg.DTypeError)) as caught:
            once(halo, given)
        assert "on rank 0 " in str(caught.value)
        check_it_works(grid, halo)
        halo.close()

    in_any_order(4, body)


def test_closed_under_way_and_functions(spmd):
    def body():
        grid, halo = plan_on_a_line(None, 2)
        u = np.zeros((4, 3))
        halo.start(u)
        with pytest.raises(sg.RequestError, match="under way"):
            once(halo, u)
        halo.wait()
        check_it_works(grid, halo)
        sg.all_reduce(1, grid, [0], "sum")
        halo.close()
        with pytest.raises(sg.RequestError, match="closed"):
            once(halo, u)
        _, halo = plan_on_a_line(None, 2, boundary=lambda local, outside: None)
        with pytest.raises(sg.ShardingError, match="functions"):
            once(halo, u)
        halo.update(u)
        halo.close()

    spmd(2, body)


@pytest.mark.parametrize("given", [None, 1.0, (1, 2), "u"], ids=str)
def test_what_is_no_array_is_refused_by_the_compiler(given):
    def body():
        _, halo = plan_on_a_line(None, 1)
        with pytest.raises(numba.TypingError, match="takes local arrays"):
            once(halo, given)

    sg.run_spmd(body, ranks=1)


def test_dtypes_that_differ_in_their_fields_alone(spmd):
    """As large, and with the same names."""
    ours, other = np.dtype([("a", "i4"), ("b", "f4")]), np.dtype([("a", "f4"), ("b", "i4")])

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (4,), ours) as halo:
            with pytest.raises(sg.DTypeError):
                halo.update(np.zeros(4, other if grid.rank else ours))
            with pytest.raises(sg.DTypeError):
                once(halo, np.zeros(4, other if grid.rank else ours))

    spmd(2, body)


def test_no_reference_is_kept(spmd):
    """Of updates that end well; where one raises, numba itself forgets to give references back."""

    def body():
        _, halo = plan_on_a_line(None, 2)
        u, v = np.zeros((4, 3)), np.zeros((4, 3))
        for _ in range(200):
            once(halo, u)
            assert heat(halo, u, v, 2) == 2
        assert (sys.getrefcount(halo), sys.getrefcount(u), sys.getrefcount(v)) == (2, 2, 2)
        halo.close()

    spmd(2, body)


MIXED = """
import numpy as np
import spmd_grid as sg
from mpi4py import MPI
from support.compiled import updates_free, updates_holding

def attempt(loop, are_in_loops):
    grid = sg.init_grid((-1,), comm=MPI.COMM_WORLD.Dup(), check=True)
    n = grid.size
    with sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), (4 * n,), "f8", True) as halo:
        u = np.full(6, float(grid.rank))
        loop(halo, u, 3)
        for _ in range(3):
            halo.update(u)
        assert (u[0], u[-1]) == ((grid.rank - 1) % n, (grid.rank + 1) % n)
        MPI.COMM_WORLD.Barrier()
        before, texts = u.copy(), []
        for again in range(2):
            try:
                if are_in_loops(grid.rank):
                    loop(halo, u, 3)
                else:
                    halo.update(u)
            except sg.MismatchError as error:
                texts.append(str(error))
        assert len(set(texts)) == 1 and np.array_equal(u, before), texts
        assert "wait for one another" in texts[0] and ", in a compiled loop at program.py:" in texts[0], texts
        assert "HaloExchange.update(" in texts[0], texts
    assert len(set(MPI.COMM_WORLD.allgather(texts[0]))) == 1

attempt(updates_holding, lambda rank: rank == 1)
attempt(updates_free, lambda rank: rank != 0)
print("fine")
"""


@pytest.mark.parametrize("per_node", ["", "2"])
def test_some_are_in_loops_in_checking_mode(tmp_path, per_node):
    """Their updates are not compared, as the others' are: all get one error, and no cell is written."""
    check_fine(tmp_path, 3, MIXED, SPMD_GRID_RANKS_PER_NODE=per_node)
