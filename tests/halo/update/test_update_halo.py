"""update_halo: kinds of arrays and shardings, and what it promises besides the values."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.halo.halo_oracle import HaloCase
from support.halo.sweeps import SPLITS

import spmd_grid as sg
from spmd_grid.halo.geometry.line import halo_pieces

PATHS = ["auto", "direct", "inline", "message"]
CASES = json.loads((Path(__file__).parents[1] / "dialect_halo_cases.json").read_text())["cases"]
DTYPES = ["i1", "f2", "f8", ">i4", "c16", "S3", "M8[s]", [("a", "i2"), ("b", "f8")]]


def update(case, form="call", memory=None, **options):
    """On every rank: updates and compares; values outside the domain must stay."""
    grid = sg.init_grid(case.grid_shape)
    local, wanted = case.before_and_after(grid.coords)
    if memory is not None:
        held = memory(local)
        held[...] = local
        local = held
    if form == "start":
        request = sg.update_halo.start(local, grid, case.split_axes, case.halo_sizes, case.periodic, **options)
        result = request.wait()
    else:
        result = sg.update_halo(local, grid, case.split_axes, case.halo_sizes, case.periodic, **options)
    assert result is local
    assert np.array_equal(local, wanted), (grid.coords, local, wanted)


def n_ranks(case) -> int:
    return int(np.prod(case.grid_shape))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("form", ["call", "start"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("split", SPLITS, ids=lambda split: f"{split[0]}-{split[1]}")
def test_splits(spmd, split, path, form):
    case = HaloCase(*split)
    with sg.forced_path(path):
        spmd(n_ranks(case), update, case, form)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(spmd, dtype, path):
    split = (0, 3, 4), (0, 2, 5)
    case = HaloCase((2, 2), [[0], [1]], split, [(1, 2), (2, 1)], [True, False], "i8")

    def body():
        grid = sg.init_grid((2, 2))
        before, wanted = (array.astype("u1").astype(dtype) for array in case.before_and_after(grid.coords))
        sg.update_halo(before, grid, case.split_axes, case.halo_sizes, case.periodic)
        assert before.tolist() == wanted.tolist()

    with sg.forced_path(path):
        spmd(4, body)


MEMORY = {
    "F": lambda x: np.empty_like(x, order="F"),
    "steps": lambda x: np.full([2 * n + 1 for n in x.shape], 99, x.dtype)[tuple(slice(1, None, 2) for _ in x.shape)],
    "backwards": lambda x: np.empty(x.shape, x.dtype)[(slice(None, None, -1),) * x.ndim],
    "inside": lambda x: np.full([n + 3 for n in x.shape], 99, x.dtype)[tuple(slice(1, n + 1) for n in x.shape)],
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("memory", MEMORY)
def test_memory(spmd, memory, path):
    case = HaloCase((2, 2), [[0], [1]], [(0, 3, 4), (0, 2, 5), (0, 3)], [(1, 2), (2, 1), (0, 0)], [True, False, False])

    def body():
        update(case, memory=MEMORY[memory])
        update(case, "start", memory=MEMORY[memory])

    with sg.forced_path(path):
        spmd(4, body)


@pytest.mark.parametrize("path", PATHS)
def test_large(spmd, path):
    """Past the size from which the kernels copy."""
    case = HaloCase((2, 2), [[0], [1]], [(0, 300, 500), (0, 100, 400)], [(31, 17), (29, 33)], [True, False], "f8")
    with sg.forced_path(path):
        spmd(4, update, case)


def test_subclass_of_ndarray(spmd):
    class Named(np.ndarray):
        pass

    def body():
        grid = sg.init_grid((2,))
        x = np.array([0, grid.rank + 1, 0]).view(Named)
        assert sg.update_halo(x, grid, [[0]], [1, 1]) is x
        return x.tolist()

    assert spmd(2, body) == [[0, 1, 2], [1, 2, 0]]


@pytest.mark.parametrize("path", PATHS)
def test_other_work_while_updates_are_under_way(spmd, path):
    """Several started updates, waited for in another order than they were started in."""
    cases = [
        HaloCase((2, 2), [[0], [1]], [(0, 3, 4), (0, 2, 5)], [(1, 2), (2, 1)], [True, False]),
        HaloCase((2, 2), [[1], [0]], [(0, 3, 4), (0, 2, 5)], [(1, 0), (2, 1)], [False, True]),
        HaloCase((2, 2), [[0, 1]], [(0, 3, 4, 4, 6)], [(1, 1)], [False]),
    ]

    def body():
        grid = sg.init_grid((2, 2))
        locals_, wanted = zip(*(case.before_and_after(grid.coords) for case in cases), strict=True)
        requests = [
            sg.update_halo.start(local, grid, case.split_axes, case.halo_sizes, case.periodic)
            for case, local in zip(cases, locals_, strict=True)
        ]
        total = sg.all_reduce(grid.rank, grid, [0, 1], "sum")
        for i in np.roll(range(len(cases)), grid.rank):
            assert requests[i].wait() is locals_[i]
        assert total == 6
        for local, after in zip(locals_, wanted, strict=True):
            assert np.array_equal(local, after)

    with sg.forced_path(path):
        spmd(4, body)


def test_updates_after_one_another(spmd):
    """A rank may write as soon as the call returns: nobody reads it any more."""

    def body():
        grid = sg.init_grid((3,))
        x = np.zeros(202, int)
        for step in range(50):
            x[1:-1] = 1000 * grid.rank + step
            sg.update_halo(x, grid, [[0]], [1, 1])
            assert x[0] == (1000 * (grid.rank - 1) + step if grid.rank > 0 else 0)
            assert x[-1] == (1000 * (grid.rank + 1) + step if grid.rank < 2 else 0)

    for path in PATHS:
        with sg.forced_path(path):
            spmd(3, body)


@pytest.mark.parametrize("blocks", ["ceil", "balanced"])
def test_global_shape(spmd, blocks):
    from spmd_grid.grid.blocks import block_starts

    starts = block_starts(7, (2, 2), blocks)
    case = HaloCase((2, 2), [[], [1, 0]], [(0, 2), starts], [(0, 0), (2, 1)], [False, False])
    spmd(4, update, case, "call", None)

    def body():
        update(case, global_shape=(2, 7), blocks=blocks)
        update(case, sharded_dims_offsets=starts)
        update(case, global_shape=(2, 7), sharded_dims_offsets=[starts])

    spmd(4, body)


def test_without_sharded_dimensions(spmd):
    def body():
        grid = sg.init_grid((2,))
        for x in np.zeros(()), np.zeros((2, 3)):
            assert sg.update_halo(x, grid, [[], []] if x.ndim else [], []) is x
            assert sg.update_halo.start(x, grid, [], []).wait() is x

    spmd(2, body)


def test_named_axes_and_a_part_of_the_processes(spmd):
    def body():
        grid = sg.init_grid((2,), axis_names=("x",), ranks=[2, 0])
        if grid.coords is None:
            with pytest.raises(sg.GridError, match="not in the"):
                sg.update_halo(np.zeros(3), grid, [["x"]], [1, 1])
            return None
        x = np.array([-1, grid.coords[0] + 1, -1])
        return sg.update_halo(x, grid, [["x"]], [1, 1], periodic=True).tolist()

    assert spmd(3, body) == [[1, 2, 1], None, [2, 1, 2]]


# -- the dialect's own cases -----------------------------------------------------------------------------------


def cases_of(kind):
    found = [case for case in CASES if case["kind"] == kind]
    assert found
    return pytest.mark.parametrize("case", found, ids=lambda case: case["name"])


@cases_of("update_halo_data")
def test_dialect_data(spmd, case):
    def body():
        grid = sg.init_grid(case["grid"])
        sharding = sg.Sharding(grid, case["split_axes"], halo_sizes=case["halo_sizes"])
        array = np.array(case["global_tensor"])
        local = np.zeros(sharding.shard_shape(array.shape, grid.coords), array.dtype)
        core = tuple(slice(sharding.halo_of(d)[0], local.shape[d] - sharding.halo_of(d)[1]) for d in range(array.ndim))
        local[core] = array[sharding.shard_slices(array.shape, grid.coords)]
        sg.update_halo(local, grid, case["split_axes"], case["halo_sizes"])
        assert local.tolist() == case["result"][",".join(map(str, grid.coords))]

    spmd(int(np.prod(case["grid"])), body)


@cases_of("update_halo_plan")
def test_dialect_plan(case):
    """Offsets, sizes and partners of the messages that the dialect's lowering lists for one rank."""
    grid = sg.Grid(case["grid"])
    coords = grid.multi_index(case["rank"])
    assert list(coords) == case["multi_index"]
    ((axis,),) = case["split_axes"]
    low, high = case["halo_sizes"]
    core = case["local_shape"][0] - low - high
    n = grid.shape[axis]
    starts = [core * i for i in range(n + 1)]

    def device(place):
        return grid.linear_index([place if a == axis else c for a, c in enumerate(coords)])

    me = coords[axis]
    received = {(device(p.owner), p.at, p.stop - p.start) for p in halo_pieces(starts, me, low, high, False)}
    sent = {
        (device(peer), low + p.start - starts[me], p.stop - p.start)
        for peer in range(n)
        for p in halo_pieces(starts, peer, low, high, False)
        if p.owner == me
    }
    assert received == {(s["recv"]["from"], s["recv"]["offset"][0], s["recv"]["size"][0]) for s in case["steps"]}
    assert sent == {(s["send"]["to"], s["send"]["offset"][0], s["send"]["size"][0]) for s in case["steps"]}


@cases_of("halo_reshard")
def test_dialect_local_shapes(case):
    sharding = sg.Sharding(sg.Grid(case["grid"]), case["split_axes"], halo_sizes=case["halo_to"])
    plain = sg.Sharding(sg.Grid(case["grid"]), case["split_axes"])
    for coords in np.ndindex(*case["grid"]):
        assert list(plain.shard_shape(case["shape"], coords)) == case["local_in"]
        assert list(sharding.core_shape(case["shape"], coords)) == case["core"]
        assert list(sharding.shard_shape(case["shape"], coords)) == case["local_out"]
    assert [sharding.halo_of(dim)[0] for dim in range(2)] == case["core_offset_in_result"]


@cases_of("op_shape")
def test_dialect_shapes(case):
    """On fewer devices than the case's grid has, which the shapes do not depend on."""

    def body():
        grid = sg.init_grid((1, 1, 2))
        x = np.zeros(case["in"])
        return sg.update_halo(x, grid, case["split_axes"], case["halo_sizes"]).shape

    assert sg.run_spmd(body, ranks=2) == [tuple(case["out"])] * 2
