"""map_overlap: what is refused, alike on all ranks; and kernels that fail."""

import numpy as np
import pytest
from support.halo.overlap_cases import PATHS, SPLIT, simple

import spmd_grid as sg
from spmd_grid.grid.sharding import Sharding


def read_only(array):
    array.local.flags.writeable = False
    return array


BAD_OUT = {
    "local array": (lambda u, s, grid: u.local.copy(), "OutputError", "out is ndarray"),
    "u itself": (lambda u, s, grid: u, "OutputError", "overlaps"),
    "halo": (lambda u, s, grid: sg.zeros((6,), Sharding(grid, [[0]], halo_sizes=[1, 2]), grid), "ShapeError", "layout"),
    "shape": (lambda u, s, grid: sg.zeros((9,), s, grid), "ShapeError", "layout"),
    "read-only": (lambda u, s, grid: read_only(sg.zeros((6,), s, grid)), "OutputError", "read-only"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("own_plan", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("what", BAD_OUT)
def test_a_bad_out_is_refused_by_all(spmd, what, everywhere, own_plan, path):
    make, error, words = BAD_OUT[what]

    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (6,), s, grid)
        halo = sg.HaloExchange(grid, s, (6,), u.dtype) if own_plan else None
        for _ in range(2):
            good = sg.zeros((6,), s, grid, u.dtype)
            with pytest.raises(sg.SpmdError) as caught:
                sg.map_overlap(simple, u, 1, out=make(u, s, grid) if everywhere or grid.rank == 1 else good, halo=halo)
            assert type(caught.value).__name__ == error
            assert words in str(caught.value) and ("on rank 1 " in str(caught.value)) == (not everywhere)
            good = sg.map_overlap(simple, u, 1, out=good, halo=halo, region=np.s_[1:-1])
            assert good.to_global().tolist() == [0, 2, 4, 6, 8, 0]

    with sg.forced_path(path):
        spmd(3, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bad", ["list", "dtype", "layout", "read-only", "number of arrays", "none at all"])
def test_a_bad_field_of_one_rank_is_refused_by_all(spmd, bad, path):
    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (6,), s, grid)
        wrong = {
            "list": [[1.0, 2.0]],
            "dtype": sg.zeros((6,), s, grid, "f4"),
            "layout": sg.zeros((7,), s, grid, u.dtype),
            "read-only": read_only(sg.zeros((6,), s, grid, u.dtype)),
            "number of arrays": (u, u),
            "none at all": (),
        }[bad]
        with sg.HaloExchange(grid, s, (6,), u.dtype) as halo:
            with pytest.raises(sg.SpmdError, match="on rank 1"):
                sg.map_overlap(simple, wrong if grid.rank == 1 else u, 1, halo=halo)
            found = sg.map_overlap(simple, u, 1, halo=halo, region=np.s_[1:-1])
            assert found.to_global().tolist() == [0, 2, 4, 6, 8, 0]

    with sg.forced_path(path):
        spmd(3, body)


def test_what_all_know_is_refused_before_anything_is_sent(spmd):
    def body():
        grid = sg.init_grid((2,))
        s = Sharding(grid, **SPLIT)
        u = sg.zeros((6,), s, grid)
        halo = sg.HaloExchange(grid, s, (6,), "f8")
        cases = [
            (sg.ShapeError, "kernel", lambda: sg.map_overlap("simple", u, 1)),
            (sg.ShapeError, "^map_overlap: radius is 2", lambda: sg.map_overlap(simple, u, 2)),
            (sg.ShapeError, "^map_overlap: region", lambda: sg.map_overlap(simple, u, 1, region=3)),
            (sg.OutputError, "u is ndarray", lambda: sg.map_overlap(simple, u.local, 1)),
            (sg.OutputError, "array 1 of u", lambda: sg.map_overlap(simple, (u, None), 1)),
            (sg.ShapeError, "empty tuple", lambda: sg.map_overlap(simple, (), 1)),
            (sg.GridError, "HaloExchange", lambda: sg.map_overlap(simple, u, 1, halo="mine")),
            (sg.ShardingError, "plan", lambda: sg.map_overlap(simple, u, 1, halo=halo, periodic=True)),
            (sg.ShardingError, "boundary", lambda: sg.map_overlap(simple, u, 1, boundary="sideways")),
            (sg.ShardingError, "boundary", lambda: sg.map_overlap(simple, u, 1, boundary=np.zeros((2, 2)))),
            (sg.ShapeError, "corners", lambda: sg.map_overlap(simple, u, 1, corners=None)),
        ]
        for error, words, call in cases:
            with pytest.raises(error, match=words):
                call()
        halo.start(u)
        with pytest.raises(sg.RequestError, match="under way"):
            sg.map_overlap(simple, u, 1, halo=halo)
        halo.wait()
        halo.close()
        with pytest.raises(sg.RequestError, match="closed"):
            sg.map_overlap(simple, u, 1, halo=halo)
        grid.close()
        with pytest.raises(sg.GridError, match="closed"):
            sg.map_overlap(simple, u, 1)

    spmd(2, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("is_planned", [False, True], ids=["alone", "planned"])
def test_an_error_of_the_kernel_leaves_the_plan_usable(spmd, call, path, is_planned):
    """On one rank, in the interior or at the boundary: all raise it, or with a plan of the program's the next operation
    tells the others.  Nobody hangs.
    """

    def body():
        grid = sg.init_grid((3,))
        s = Sharding(grid, **SPLIT)
        u = sg.from_function(lambda i: i, (12,), s, grid)
        calls, halo = [], sg.HaloExchange(grid, s, u.shape, u.dtype) if is_planned else None

        def fragile(*arguments):
            calls.append(arguments)
            if grid.rank == 1 and len(calls) == call + 1:
                raise ZeroDivisionError("of the kernel")
            simple(*arguments)

        if grid.rank == 1 or not is_planned:
            with pytest.raises(ZeroDivisionError, match="of the kernel"):
                sg.map_overlap(fragile, u, 1, halo=halo)
        else:
            sg.map_overlap(fragile, u, 1, halo=halo)
        assert grid.rank == 1 or len(calls) == 3
        if is_planned:
            with pytest.raises(sg.MismatchError, match=r"rank 1 \(1,\): failed.* ZeroDivisionError in map_overlap"):
                sg.map_overlap(simple, u, 1)
        found = sg.map_overlap(simple, u, 1, region=np.s_[1:-1])
        assert found.to_global().tolist() == [0, *range(2, 22, 2), 0]

    with sg.forced_path(path):
        spmd(3, body)
