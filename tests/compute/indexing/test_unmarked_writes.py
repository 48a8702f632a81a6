"""Writes through .core and .local that were not marked: no slice reads the halos that they make stale."""

from itertools import product

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.halo.border_copy import BorderCopy

RANKS = 3


def as_unchecked(spmd, request, body, ranks=RANKS):
    """``body(grid)`` by rank, on a communicator of its own: what is cut off are the operations of its processes."""

    def run():
        if not request.config.getoption("with_mpi", default=False):
            grid = sg.init_grid((ranks,))
            grid.process.recorder.check = False
            return body(grid)
        MPI = pytest.importorskip("mpi4py.MPI")
        comm = MPI.COMM_WORLD.Create_group(MPI.COMM_WORLD.Get_group().Incl(range(ranks)))
        found = body(sg.init_grid((ranks,), comm=comm))
        comm.Free()
        return found

    return spmd(ranks, run)


def line_of(grid, n=13):
    return sg.from_function(lambda i: i * i * 1.0, (n,), sg.Sharding(grid, [[0]], halo_sizes=[2, 2]), grid)


def outcome(function):
    try:
        function()
    except sg.SpmdError as error:
        return type(error).__name__, str(error)
    return "", ""


LOCAL_WRITES = {  # by rank 1, whose block is cells 5 to 9; a view of its core was taken before
    "its first cell": lambda a, view: a.core.__setitem__(0, -1.0),
    "its last cell": lambda a, view: a.core.__setitem__(-1, np.nan),
    "a cell of its halo": lambda a, view: a.local.__setitem__(0, -1.0),
    "by the view": lambda a, view: view.__setitem__(1, 0.5),
}


@pytest.mark.parametrize("write", LOCAL_WRITES)
def test_a_process_that_writes_alone(spmd, request, write):
    """It raises at the slice; the others, which cannot know, in their next operation that communicates."""

    def body(grid):
        a = line_of(grid)
        view = a.core if grid.rank == 1 else None
        first = outcome(a.update_halo)
        if grid.rank == 1:
            LOCAL_WRITES[write](a, view)
        return [first, *[outcome(each) for each in (lambda: a[1:], a.to_global, a.update_halo)]]

    found = as_unchecked(spmd, request, body)
    assert found[1][0] == ("", "")
    kind, text = found[1][1]
    assert kind == "MismatchError" and "on process 1" in text and "without mark_dirty()" in text
    # Rank 1 may have raised before the others have left the update.
    assert {kind for kind, _ in found[0][:2] + found[2][:2]} <= {"", "CutOffError"}
    last = {each for of_rank in found for each in of_rank[2:]}
    assert len(last) == 1 and last.pop()[0] == "CutOffError"


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_processes_write(spmd, request, ranks):
    """The first that slices raises; another one may hear of it before it has left the operation before."""

    def body(grid):
        def program():
            a = line_of(grid)
            a.core[...] += 1.0
            return a[2:]

        return outcome(program)

    found = as_unchecked(spmd, request, body, ranks)
    assert {kind for kind, _ in found} <= {"MismatchError", "CutOffError"}
    assert "MismatchError" in [kind for kind, _ in found]


def test_writes_that_no_halo_shows(spmd, request):
    """Cells in the middle of blocks and outside the domain are not copied anywhere: they may be written at any time."""

    def body(grid):
        a = line_of(grid, 16)
        x = a.to_global()
        for _ in range(2):
            if grid.rank == 1:
                a.core[2:-2] = -7.0
            a.local[:2] = [-3.0, -2.0] if grid.rank == 0 else a.local[:2]
            x[8:10] = -7.0
            assert np.array_equal(a[1:].to_global(), x[1:])
        a.core[...] *= 2.0
        a.mark_dirty()
        assert np.array_equal(a[2:].to_global(), 2.0 * x[2:])

    as_unchecked(spmd, request, body)


@pytest.mark.parametrize("wrapped", [True, False])
def test_local_arrays_of_the_program(spmd, request, wrapped):
    """from_local and reshard(out=) leave the program with the memory."""

    def body(grid):
        def program():
            sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
            local, given = np.arange(6.0) + 4 * grid.rank, np.empty(6)
            mine = sg.from_local(local, sharding, grid, (12,)).update_halo()
            moved = mine.reshard(sharding, out=given)
            assert np.array_equal(moved[1:].to_global(), mine[1:].to_global())
            if grid.rank == 2:
                (local if wrapped else given)[1] += 1.0
            return mine[1:], moved[1:], mine.to_global()

        return outcome(program)

    found = as_unchecked(spmd, request, body)
    assert [kind for kind, _ in found] == ["CutOffError", "CutOffError", "MismatchError"]


LAYOUTS = [
    ((3,), [[0]], [1, 2], (13, 4), {}),
    ((3,), [[0]], [5, 4], (7,), {}),
    ((2, 3), [[0], [1]], [2, 1, 0, 3], (8, 13), {}),
    ((2, 3), [[1, 0]], [1, 1], (7,), {}),
    ((2, 3), [[], [1]], [2, 2], (3, 9), {"sharded_dims_offsets": [[0, 0, 4, 9]]}),
    ((4,), [[0]], [1, 1], (0,), {}),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cells_that_are_watched(layout):
    """By brute force: cells in the domain that lie in halos, its own or another device's."""
    shape, axes, halos, extents, options = layout
    grid = sg.Grid(shape)
    whole = sg.Sharding(grid, axes, halo_sizes=halos, **options)
    layout = Layout(whole, extents)
    devices = list(product(*map(range, shape)))
    in_halos = {}
    for coords in devices:
        local, core = layout.local_box(coords), layout.core_box(coords)
        cells = set(product(*[range(max(a, 0), min(b, n)) for a, b, n in zip(local.starts, local.stops, extents)]))
        in_halos[coords] = cells - set(product(*map(range, core.starts, core.stops)))
    for coords in devices:
        mine, core = layout.local_box(coords), layout.core_box(coords)
        split = [axis for entry in axes for axis in entry]
        others = [in_halos[c] for c in devices if any(c[axis] != coords[axis] for axis in split)]
        owned = set(product(*map(range, core.starts, core.stops)))
        wanted = in_halos[coords] | (owned & set().union(*others))
        numbers = np.arange(np.prod(mine.shape), dtype=float).reshape(mine.shape)
        copy = BorderCopy(numbers, layout, coords)
        found = set()
        for index in np.ndindex(*mine.shape):
            numbers[index] += 0.5
            if not copy.agrees(numbers):
                found.add(tuple(int(i + start) for i, start in zip(index, mine.starts)))
            numbers[index] -= 0.5
        assert found == wanted, coords
