"""Grids bound to running processes, on simulated ranks and under MPI."""

import pickle

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.errors import AxisError, GridError
from spmd_grid.transport.launch import as_communicator, current_world


@pytest.mark.parametrize(
    ("n", "asked", "shape"), [(6, (2, -1), (2, 3)), (6, (-1,), (6,)), (4, (-1, 2, 2), (1, 2, 2)), (1, (-1, 1), (1, 1))]
)
def test_coordinates(spmd, n, asked, shape):
    def body():
        grid = sg.init_grid(asked)
        assert (grid.shape, grid.ndim, grid.size, grid.grid) == (shape, len(shape), n, sg.Grid(shape))
        assert grid.process_linear_index() == grid.rank
        assert grid.process_multi_index() == grid.coords == tuple(map(int, np.unravel_index(grid.rank, shape)))
        backwards = tuple(range(len(shape)))[::-1]
        assert grid.process_multi_index(backwards) == grid.coords[::-1] and grid.grid_shape(backwards) == shape[::-1]
        return grid.coords

    assert spmd(n, body) == list(np.ndindex(shape))


@pytest.mark.parametrize(
    ("n", "shape"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 1)), (4, (2, 2)), (6, (3, 2)), (12, (4, 3))]
)
def test_near_square(spmd, n, shape):
    """Of several -1 the larger factors come first; the processes of ``ranks`` count where they are given."""

    def body():
        grid, turned = sg.init_grid((-1, -1)), sg.init_grid((-1, 1, -1), ranks=range(n)[::-1])
        return grid.shape, grid.coords, turned.shape

    assert spmd(n, body) == [(shape, coords, (shape[0], 1, shape[1])) for coords in np.ndindex(shape)]


def test_axis_names(spmd):
    def body():
        grid = sg.init_grid((2, 2), axis_names=("y", "x"))
        by_name = sg.all_gather(np.array([grid.rank]), grid, ["x", "y"], 0)
        assert grid.axis_names == ("y", "x") and grid.process_multi_index(["x"]) == grid.coords[1:]
        return by_name.tolist()

    assert spmd(4, body) == [[0, 2, 1, 3]] * 4


@pytest.mark.parametrize("ranks", [(2, 0), (0,), (1, 2), (2, 1, 0), range(3)])
def test_chosen_processes(spmd, ranks):
    """Some of the processes, in any order; the others get a grid that they may not use."""

    def body():
        grid = sg.init_grid((-1,), ranks=ranks)
        world = current_world()
        if world.rank not in ranks:
            assert grid.coords is None and grid.rank == world.rank and grid.process_linear_index() is None
            assert grid.process_multi_index() is None and grid.shape == (len(ranks),)
            refusals = [
                lambda: sg.all_reduce(1, grid, [0], "sum"),
                lambda: sg.all_slice(np.ones(3), grid, [0], 0),
                lambda: sg.send(1, grid, [0], [0]),
                lambda: sg.recv(grid, [0]),
                lambda: sg.update_halo(np.ones(3), grid, [[0]], [1, 1]),
                lambda: sg.shift(1, grid, [0], 0, 1),
                lambda: grid.group((0,)),
            ]
            for refused in refusals:
                with pytest.raises(GridError, match=f"process {grid.rank} is not in the"):
                    refused()
            return None
        assert grid.coords == (list(ranks).index(world.rank),)
        return sg.all_gather(np.array([grid.rank]), grid, [0], 0).tolist()

    gathered = spmd(3, body)
    assert gathered == [list(ranks) if rank in ranks else None for rank in range(3)]


REFUSALS = {
    "too large": ((2, 2), None, "a grid of 2x2 needs 4 processes; there are 3"),
    "too small": ((2,), None, "has 2 devices, but there are 3 processes"),
    "no fit": ((2, -1), None, "it needs a multiple of 2 processes; there are 3"),
    "no fit of two": ((-1, 2, -1), None, "it needs a multiple of 2 processes; there are 3"),
    "zero": ((0, 3), None, "at least one size, each an integer of at least 1"),
    "ranks too few": ((3,), (0, 1), "a grid of 3 needs 3 processes; there are 2"),
    "rank twice": ((2,), (1, 1), "a process must not be two devices"),
    "rank beyond": ((2,), (0, 3), "process 3; there are processes 0 to 2"),
    "rank negative": ((2,), (0, -1), "it must list process numbers"),
    "rank no number": ((2,), (0, 1.5), "it must list the process of each device"),
    "no ranks": ((-1,), (), "it must list the process of each device"),
    "ranks no list": ((2,), 5, "it must list the process of each device"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_grids_that_do_not_fit(spmd, case):
    """Every process raises the same error, and goes on."""
    shape, ranks, words = REFUSALS[case]

    def body():
        with pytest.raises(GridError, match=words) as caught:
            sg.init_grid(shape, ranks=ranks)
        sg.all_reduce(1, sg.init_grid((3,)), [0], "sum")
        return str(caught.value)

    assert len(set(spmd(3, body))) == 1


def test_empty_axes_are_the_device_itself(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        group = grid.group(())
        assert (group.size, group.rank, group.processes) == (1, 0, (grid.rank,))
        return int(sg.all_reduce(grid.rank, grid, [], "sum"))

    assert spmd(4, body) == [0, 1, 2, 3]


def test_all_axes_permuted_is_the_world_reordered(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        assert grid.group((0, 1)) is current_world() and grid.group((0, 1)).processes == (0, 1, 2, 3, 4, 5)
        turned = grid.group((1, 0))
        assert turned is not current_world() and turned.processes == (0, 3, 1, 4, 2, 5)
        assert turned.rank == turned.processes.index(grid.rank)
        assert sg.all_gather(np.array([grid.rank]), grid, [1, 0], 0).tolist() == [0, 3, 1, 4, 2, 5]
        return True

    assert all(spmd(6, body))


@pytest.mark.parametrize("n", [2, 4])
def test_thousands_of_grids(spmd, n):
    """Grids with the same processes share their communicators, of which MPI has about 2,000."""

    def body():
        world = current_world()
        shapes = [(n,), (2, n // 2), (n // 2, 2), (1, n)]
        orders = [None, tuple(range(n))[::-1]]
        groups = {}
        for i in range(2500):
            grid = sg.init_grid(shapes[i % 4], ranks=orders[i // 4 % 2])
            for axes in [(), (0,), *([(1,), (1, 0)] if grid.ndim == 2 else [])]:
                group = grid.group(axes)
                groups[id(group)] = group
            if i % 100 == 0:
                for axis in range(grid.ndim):
                    assert sg.all_reduce(1, grid, [axis], "sum") == grid.shape[axis]
        assert world.rank == grid.rank
        return len(groups), len({group.processes for group in groups.values()})

    for made, different in spmd(n, body):
        assert made == different <= 10


def test_close(spmd):
    def body():
        with sg.init_grid((2,)) as grid:
            sg.all_reduce(1, grid, [0], "sum")
        for _ in range(2):
            with pytest.raises(GridError, match="has been closed"):
                sg.all_reduce(1, grid, [0], "sum")
            grid.close()
        with pytest.raises(GridError, match="has been closed"):
            sg.recv(grid, [0])
        other = sg.init_grid((2,))  # the communicators live on
        assert grid.shape == (2,)  # and so does the geometry
        return int(sg.all_reduce(1, other, [0], "sum"))

    assert spmd(2, body) == [2, 2]


def test_no_pickling(spmd):
    def body():
        grid = sg.init_grid((-1,))
        with pytest.raises(TypeError, match=r"cannot be pickled; pickle its \.grid"):
            pickle.dumps(grid)
        assert pickle.loads(pickle.dumps(grid.grid)) == grid.grid
        assert f"rank={grid.rank}" in repr(grid)

    spmd(2, body)


def test_unknown_axes(spmd):
    def body():
        grid = sg.init_grid((2, 1))
        for axes in ([2], [-1], [0, 0], ["x"]):
            with pytest.raises(AxisError):
                sg.all_reduce(1, grid, axes, "sum")

    spmd(2, body)


@pytest.mark.parametrize("comm", ["world", 3, object()])
def test_comm_must_be_a_communicator(spmd, comm):
    def body():
        with pytest.raises(GridError, match="it must be an intracommunicator of mpi4py"):
            sg.init_grid((-1,), comm=comm)

    spmd(2, body)


def test_comm_of_mpi4py(spmd):
    """A part of the processes with numbers of its own; simulated ranks have no such thing."""

    def body():
        world = current_world()
        if world.shares_memory:
            return True
        from mpi4py import MPI

        half = world.comm.Split(world.rank // 2, -world.rank)
        assert half.size == 2
        grid = sg.init_grid((2,), comm=half)
        assert grid.rank == half.rank == 1 - world.rank % 2
        processes = sg.all_gather(np.array([world.rank]), grid, [0], 0).tolist()
        assert processes == [world.rank // 2 * 2 + 1, world.rank // 2 * 2]
        assert as_communicator(half) is as_communicator(half)  # one per communicator
        again = sg.init_grid((-1,), comm=half, ranks=[1])
        assert (again.coords is None) == (half.rank == 0)
        with pytest.raises(GridError, match="that this process is in"):
            sg.init_grid((-1,), comm=MPI.COMM_NULL)
        return True

    assert all(spmd(4, body))
