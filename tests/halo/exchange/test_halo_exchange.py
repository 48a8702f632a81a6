"""HaloExchange: the dialect's cases, and all kinds of arrays and fields."""

import doctest
import json
from pathlib import Path

import numpy as np
import pytest
from support.halo.exchange_oracle import MEMORY, PATHS, Copies, check_updates, in_memory, values_at
from support.halo.halo_oracle import HaloCase
from support.halo.small_plans import plane

import spmd_grid as sg
from spmd_grid.halo import exchange

CASES = json.loads((Path(__file__).parents[1] / "dialect_halo_cases.json").read_text())["cases"]
DTYPES = ["i1", "f2", "f8", ">i4", "c16", "S3", "M8[s]", [("a", "i2"), ("b", "f8")]]
NO_BYTES = [np.dtype("V0"), np.dtype([]), np.dtype([("a", "V0"), ("b", "S0")])]


def test_examples():
    result = doctest.testmod(exchange)
    assert result.attempted and not result.failed


# -- the dialect's own cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "update_halo_data"], ids=lambda case: case["name"])
def test_dialect_data(spmd, case, path):
    def body():
        grid = sg.init_grid(case["grid"])
        sharding = sg.Sharding(grid, case["split_axes"], halo_sizes=case["halo_sizes"])
        array = np.array(case["global_tensor"])
        with sg.HaloExchange(grid, sharding, array.shape, array.dtype, path=path) as halo:
            for _ in range(3):
                u = sg.zeros(array.shape, sharding, grid, array.dtype)
                u.core[...] = array[u.global_slices]
                halo.update(u)
                assert u.local.tolist() == case["result"][",".join(map(str, grid.coords))]

    spmd(int(np.prod(case["grid"])), body)


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "update_halo_plan"], ids=lambda case: case["name"])
def test_dialect_plan(case):
    """Offsets, sizes and partners of the messages that the dialect's lowering lists for one rank of a large grid.

    Whose neighbours along the axis alone are simulated: ranks on other coordinates of the other axes have no part.
    """
    (axis,), low, high = case["split_axes"][0], *case["halo_sizes"]
    n, core = case["grid"][axis], case["local_shape"][0] - low - high
    shape = (n * core, *case["local_shape"][1:])
    whole = sg.Grid(case["grid"])
    device = {place: whole.linear_index([place, *case["multi_index"][1:]]) for place in range(n)}

    def body():
        grid = sg.init_grid((n,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=case["halo_sizes"])
        with sg.HaloExchange(grid, sharding, shape, "i4") as halo:
            u = sg.full(shape, sharding, grid, "i4", fill_value=-1)
            u.core[...] = np.arange(core)[:, None, None] + 1000 * device[grid.rank]
            halo.update(u)
            if device[grid.rank] != case["rank"]:
                return
            for step in case["steps"]:
                start, size, peer = (step["recv"][name] for name in ("offset", "size", "from"))
                box = u.local[tuple([slice(a, a + n) for a, n in zip(start, size, strict=True)])]
                assert list(box.shape) == size
                assert (box // 1000 == peer).all()
                # What the peer sends in this step lies in its core where the lowering says.
                first = step["send"]["offset"][0] - low
                assert (box % 1000 == np.arange(first, first + size[0])[:, None, None]).all()

    assert case["multi_index"][0] == whole.multi_index(case["rank"])[0] and axis == 0
    sg.run_spmd(body, ranks=n)


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "op_shape"], ids=lambda case: case["name"])
def test_dialect_shapes(case):
    """On fewer devices than the case's grid has, which the shapes do not depend on."""

    def body():
        grid = sg.init_grid((1, 1, 2))
        sharding = sg.Sharding(grid, case["split_axes"], halo_sizes=case["halo_sizes"])
        halo_sizes = [case["halo_sizes"][i : i + 2] for i in range(0, len(case["halo_sizes"]), 2)]
        shape = tuple(n - low - high for n, (low, high) in zip(case["in"], halo_sizes, strict=True))
        x = np.zeros(case["in"])
        sg.HaloExchange(grid, sharding, shape, "f8").update(x)
        return x.shape

    assert sg.run_spmd(body, ranks=2) == [tuple(case["out"])] * 2


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "halo_reshard"], ids=lambda case: case["name"])
def test_dialect_local_shapes(case):
    """The local arrays that a plan wants are those that the dialect gives to its update_halo."""

    def body():
        grid = sg.init_grid((1, 1))
        sharding = sg.Sharding(grid, case["split_axes"], halo_sizes=case["halo_to"])
        with sg.HaloExchange(grid, sharding, case["core"], "f8") as halo:
            halo.update(np.zeros(case["local_out"]))
            with pytest.raises(sg.ShapeError):
                halo.update(np.zeros(case["local_in"]))

    sg.run_spmd(body, ranks=1)


# -- arrays ----------------------------------------------------------------------------------------------------


def test_dtypes(spmd, path):
    """Each by itself, and all of them as fields of one plan."""
    case = HaloCase((2, 2), [[0], [1]], [(0, 3, 4), (0, 2, 5)], [(1, 2), (2, 1)], [True, False], "i8")

    def body():
        grid = sg.init_grid((2, 2))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=case.halo_sizes, sharded_dims_offsets=case.offsets)

        def check(dtypes):
            plan = sg.HaloExchange(grid, sharding, (4, 5), dtypes, case.periodic, path=path)
            with plan as halo:
                for _ in range(3):
                    local, after = (array.astype("u1") for array in case.before_and_after(grid.coords))
                    fields, wanted = [], []
                    for number, dtype in enumerate(dtypes):
                        fields.append((local + number).astype(np.dtype(dtype)))
                        wanted.append((after + number).astype(np.dtype(dtype)))
                    halo.update(*fields)
                    for field, each in zip(fields, wanted, strict=True):
                        assert field.tolist() == each.tolist()

        for dtype in DTYPES:
            check([dtype])
        check(DTYPES)
        check([DTYPES[6], DTYPES[0], DTYPES[0], DTYPES[7], DTYPES[1]])

    spmd(4, body)


def test_elements_without_bytes(spmd, path):
    """There is nothing to move; next to fields of which there is."""

    def body():
        grid, sharding, shape = plane()
        for dtypes in [[dtype] for dtype in NO_BYTES] + [[NO_BYTES[0], "f8", NO_BYTES[2]]]:
            with sg.HaloExchange(grid, sharding, shape, dtypes, path=path) as halo:
                local = halo.layout.local_shape(grid.coords)
                fields = [np.zeros(local, dtype) for dtype in dtypes]
                values = values_at(1, halo.layout, grid.coords)
                copies = Copies(halo.layout, grid.coords)
                for field in fields:
                    if field.itemsize:
                        field[copies.core] = values[copies.cells[copies.core]]
                for _ in range(3):
                    halo.update(*fields)
                halo.start(*fields)
                halo.wait()
                for field in fields:
                    assert field.itemsize == 0 or np.array_equal(field, copies.refreshed(field, values))
                    assert field.itemsize == 0 or field.sum() == values[copies.cells[copies.cells >= 0]].sum()

    spmd(4, body)


def test_memory(in_any_order, path):
    """Every kind of memory on every rank, each rank with another kind at a time, and alternating from step to step."""

    def body():
        grid, sharding, shape = plane()
        kinds = list(MEMORY)
        mine = kinds[grid.rank :] + kinds[: grid.rank]
        check_updates(grid, sharding, shape, updates=14, memory=mine, path=path, boundary=["symmetric", "leave"])
        check_updates(grid, sharding, shape, updates=14, memory=kinds, path=path, dtype="f4", periodic=True)

    in_any_order(4, body)


def test_fields_of_many_kinds_in_one_update(spmd, path):
    """Field i of rank r lies in memory of kind i + r; some are sharded arrays, others local ones."""

    def body():
        grid, sharding, shape = plane()
        kinds, dtypes = list(MEMORY), ["f8", "i2", "c8", "f8"]
        with sg.HaloExchange(grid, sharding, shape, dtypes, [False, True], n_fields=4, path=path) as halo:
            copies = Copies(halo.layout, grid.coords, [False, True])
            for step in range(8):
                fields, wanted = [], []
                for number, dtype in enumerate(dtypes):
                    values = (values_at(step, halo.layout, grid.coords) % 30_000 + number).astype(dtype)
                    x = np.full(copies.cells.shape, -9, dtype)
                    x[copies.core] = values[copies.cells[copies.core]]
                    wanted.append(copies.refreshed(x, values))
                    x = in_memory(x, kinds[(number + step + grid.rank) % len(kinds)], grid)
                    sharded = (number + step + grid.rank) % 3 == 0 and dtype == "f8"
                    fields.append(sg.ShardedArray(x, halo.layout, grid) if sharded else x)
                halo.update(*fields)
                for field, each in zip(fields, wanted, strict=True):
                    assert np.array_equal(getattr(field, "local", field), each)

    spmd(4, body)


def test_subclass_of_ndarray_and_the_same_array_twice(spmd):
    class Named(np.ndarray):
        pass

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        halo = sg.HaloExchange(grid, sharding, (2,), "i8", n_fields=2)
        x = np.array([0, grid.rank + 1, 0]).view(Named)
        halo.update(x, x)
        halo.close()
        return x.tolist()

    assert spmd(2, body) == [[0, 1, 2], [1, 2, 0]]


def test_without_halos_and_without_dimensions(spmd):
    def body():
        grid = sg.init_grid((2,))
        for shape, split_axes, halo_sizes in (
            ((), [], None),
            ((3,), [], None),
            ((4, 3), [[0]], None),
            ((4, 3), [[0]], [0, 0]),
            ((0, 3), [[0]], [1, 1]),
            ((4, 0), [[0]], [1, 1]),
        ):
            sharding = sg.Sharding(grid, split_axes, halo_sizes=halo_sizes)
            for path in PATHS:
                with sg.HaloExchange(grid, sharding, shape, "f8", True, boundary="edge", path=path) as halo:
                    u = np.full(halo.layout.local_shape(grid.coords), 3.0)
                    halo.update(u)
                    halo.start(u)
                    halo.wait()
                    halo.accumulate(u)
                    assert (u == 3).all()

    spmd(2, body)


@pytest.mark.parametrize("name", ["read", "staged", "message", "inline", "direct", "auto"])
def test_forced_paths(spmd, name):
    """A path that is forced on the process holds for plans that name none."""

    def body():
        grid, sharding, shape = plane()
        check_updates(grid, sharding, shape, periodic=True)
        check_updates(grid, sharding, shape, path="direct")

    with sg.forced_path(name):
        spmd(4, body)


def test_names_of_axes_and_a_part_of_the_processes(spmd):
    def body():
        grid = sg.init_grid((2,), axis_names=("x",), ranks=[2, 0])
        if grid.coords is None:
            return None
        sharding = sg.Sharding(grid, [["x"]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (2,), "i8", periodic=True) as halo:
            x = np.array([-1, grid.coords[0] + 1, -1])
            halo.update(x)
        return x.tolist()

    assert spmd(3, body) == [[1, 2, 1], None, [2, 1, 2]]
