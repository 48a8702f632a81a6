"""Partial values that are folded within a node in one compiled call: numpy's bits, in the order of devices."""

from dataclasses import replace

import numpy as np
import pytest
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.relay import SLOT_BYTES
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.sizes import most_folded_whole
from spmd_grid.reduction_kind import as_reduction
from spmd_grid.reshard.executor.exchanges.relayed_folds import _alike_bytes
from spmd_grid.reshard.planner.steps import EXCHANGE, Step

RUNS = 14
# By case: the grid, the axes that split the source, those along which it is partial, and those that split the target.
CASES = {
    "to rows": ((-1,), [[], []], [0], [[0], []]),
    "to columns": ((-1,), [[], []], [0], [[], [0]]),
    "rows to blocks": ((-1, 2), [[0], []], [1], [[0], [1]]),
    "columns to columns": ((-1, 2), [[], [1]], [0], [[], [1, 0]]),
    "along both": ((-1, 2), [[], []], [0, 1], [[], [0, 1]]),
    "in another order": ((2, -1), [[], []], [1, 0], [[1], [0]]),
    "from parts": ((2, -1), [[], [0]], [1], [[1], []]),
}
# Where all that contribute get the same result, in one exchange: by groups of them, side by side.
ALIKE = {
    "to all": ((-1,), [[], []], [0], [[], []]),
    "to all of a row": ((-1, 2), [[], []], [1], [[], []]),
    "to all of a column": ((-1, 2), [[], [1]], [0], [[], [1]]),
}
SHAPES = [(24, 24), (7, 5), (2, 3), (301, 260)]


def contributions(sharding, shape, dtype):
    """Contributions of whole arrays, by the coordinates of devices along the partial axes, in their order."""
    axes = sharding.partial_axes
    extents = [sharding.grid.shape[axis] for axis in axes]
    cells = np.arange(np.prod(shape)).reshape(shape)
    parts = np.empty((*extents, *shape), dtype)
    for number, place in enumerate(np.ndindex(*extents)):
        parts[place] = ((cells * 7 + 3 * number) % 23 + 0.1 * (number + 1)).astype(dtype)
    return parts


def check_case(name, shape, dtype, kind, runs=RUNS):
    grid_shape, split, partial, into = (CASES | ALIKE)[name]
    grid = sg.init_grid(grid_shape)
    source = sg.Sharding(grid, split, partial_axes=partial, partial_kind=kind)
    target = sg.Sharding(grid, into)
    parts = contributions(source, shape, dtype)
    whole = np.empty(shape, dtype)
    rows = parts.reshape(-1, *shape)
    whole[...] = rows[0]
    for row in rows[1:]:
        whole[...] = as_reduction(kind).combine(whole, row)
    own = parts[tuple(grid.coords[axis] for axis in source.partial_axes)][source.shard_slices(shape, grid.coords)]
    wanted = whole[target.shard_slices(shape, grid.coords)]
    plan = sg.plan_reshard(source, target, shape, dtype, strategy="direct")
    if name in ALIKE:
        plan = replace(plan, steps=(Step(EXCHANGE, plan.source, plan.target),))
    out = np.empty_like(wanted)
    for k in range(runs):
        out[...] = 0
        given = own.copy()
        assert plan.run(given, grid, out) is out and same_bytes(out, wanted), (name, shape, dtype, kind, k)
        found = plan.run(given.copy("F"), grid)
        assert same_bytes(found, wanted) and same_bytes(given, own), (name, shape, dtype, kind, k)
        strided = np.zeros((*out.shape, 2), dtype)[..., 0]
        assert plan.run(given, grid, strided) is strided and same_bytes(strided, wanted)
    return plan, grid


@pytest.fixture
def processes(request):
    if not request.config.getoption("with_mpi", default=False):
        pytest.skip("simulated ranks share objects, and relay nothing")


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_bits_of_the_fold(spmd, n, name):
    def body():
        for shape in SHAPES:
            check_case(name, shape, "f8", "sum")
        for dtype, kind in (("i4", "max"), ("c16", "sum"), ("f2", "sum"), ("i8", "bitwise_xor"), ("f4", "product")):
            check_case(name, (7, 5), dtype, kind)

    spmd(n, body)


@pytest.mark.parametrize(("n", "name"), [(2, "to all"), *[(4, name) for name in ALIKE]])
def test_bits_of_slices(spmd, n, name):
    """Around the size from which each member folds a slice, and in one relay, in compiled runs too."""

    def body():
        whole = most_folded_whole(n if name == "to all" else max(2, n // 2))
        for dtype, kind, rows in (("f8", "sum", 4), ("i4", "max", 4), ("c8", "sum", 1), ("u2", "bitwise_xor", 9)):
            width = whole // (4 * np.dtype(dtype).itemsize)
            for cells in (width - 1, width, width + 1):
                plan, grid = check_case(name, (rows, cells), dtype, kind, 10)
                assert not is_relayed(grid) or compiles(plan, grid)

    spmd(n, body)


def test_steps_of_slices(spmd, processes):
    """The ring has an area for each member's slice and one for what is folded; two more steps spread that."""

    def body():
        plan, grid = check_case("to all", (48, 1 << 13), "f8", "sum", 1)
        if is_relayed(grid):
            prepared = plan.bind(grid)._prepared
            ((_, key),) = prepared._plans.values()
            [exchange] = prepared._kept.find(key)._exchanges
            x = np.empty((48, 1 << 13))
            n_steps = int(exchange.program(x, x).words[at.RELAY_STEPS])
            assert n_steps == x.nbytes // SLOT_BYTES + 2

    spmd(4, body)


def test_three_contributions(spmd):
    def body():
        check_case("to rows", (50, 40), "f8", "sum")
        check_case("to all", (501, 40), "f8", "sum")

    spmd(3, body)


def of_large_arrays(n_bytes, dtype, names):
    """Contributions in boxes of this number of bytes, a row of cells less, and one more: one relay for each run."""
    relays, relay = [], MemoryMeeting.relay
    width, size = 1 << 10, sg.init_grid((-1,)).size
    rows = n_bytes // (np.dtype(dtype).itemsize * width)
    for name in names:
        for shape in ((rows * size - 1, width), (rows * size, width), (rows * size + 1, width + 3)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(MemoryMeeting, "relay", lambda *args: (relays.append(args), relay(*args)))
                plan, grid = check_case(name, shape, dtype, "sum", runs=1)
            if is_relayed(grid):
                assert len(relays) == 3, (name, shape)
                assert compiles(plan, grid) == (n_bytes < 1 << 24), (name, shape)
            relays.clear()


def is_relayed(grid):
    comm = grid.group(tuple(range(grid.grid.ndim)))
    return not comm.shares_objects and isinstance(meeting_of(comm), MemoryMeeting) and chosen_path() == "auto"


def compiles(plan, grid):
    """Whether one compiled call may run the plan."""
    prepared = plan.bind(grid)._prepared
    ((_, key),) = prepared._plans.values()
    return prepared._kept.find(key).loop_work() is not None


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("n_bytes", [4 << 20, 8 << 20])
def test_large_arrays(spmd, processes, n, n_bytes):
    """They are larger than movements that are relayed, and the results of some are written past the caches."""
    spmd(n, of_large_arrays, n_bytes, "f8", ["to rows", "to columns"])


def test_larger_than_compiled_runs_take(spmd, processes):
    """Python relays what would keep the interpreter's lock too long."""
    spmd(2, of_large_arrays, 17 << 20, "i4", ["to rows"])


@pytest.mark.parametrize("name", ["to rows", "to columns", "rows to blocks"])
def test_one_compiled_call(spmd, name):
    """After some runs, a fold of one step is a compiled call, where the processes share memory."""

    def body():
        plan, grid = check_case(name, (40, 36), "f8", "sum")
        assert not is_relayed(grid) or compiles(plan, grid)

    spmd(4, body)


def test_groups_whose_sets_no_word_holds_fold_whole_boxes():
    assert _alike_bytes(None, None, 0, 49) == 0  # without a meeting, alike on all members
