"""HaloExchange: kinds of arrays and fields, the lives of arrays and plans, and updates of what has changed alone."""

import doctest
import gc
import json
import random
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest
from exchange_oracle import MEMORY, PATHS, Copies, check_updates, in_memory, keep_updating, own_random, values_at
from halo_oracle import HaloCase

import spmd_grid as sg
from spmd_grid.halo import exchange

CASES = json.loads((Path(__file__).parent / "dialect_halo_cases.json").read_text())["cases"]
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


def plane(halo_sizes=(1, 2, 2, 1)):
    """A small case with neighbours on all sides, uneven blocks and corners: the grid, a sharding, the shape."""
    grid = sg.init_grid((2, 2))
    return grid, sg.Sharding(grid, [[0], [1]], halo_sizes=list(halo_sizes), blocks="balanced"), (5, 4)


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


# -- what becomes of arrays ------------------------------------------------------------------------------------


def line(path=None, n=3, width=1, dtype="i8", **options):
    """A plan on a line of n ranks with two cells each."""
    grid = sg.init_grid((n,))
    sharding = sg.Sharding(grid, [[0]], halo_sizes=[width, width])
    return grid, sg.HaloExchange(grid, sharding, (2 * n,), dtype, path=path, **options)


def check_line(grid, halo, u, step, update=None):
    """Updates ``u``, an array or sharded array of `line`, with the values of a step; the halos must be right."""
    local = getattr(u, "local", u)
    local[1:-1] = 100 * grid.rank + step
    local[0] = local[-1] = -1
    (update or halo.update)(u)
    low = 100 * (grid.rank - 1) + step if grid.rank else -1
    high = 100 * (grid.rank + 1) + step if grid.rank < grid.size - 1 else -1
    assert local.tolist() == [low, *[100 * grid.rank + step] * 2, high], (grid.rank, step, local)


def test_arrays_that_die_between_updates(in_any_order, path):
    """Others take their identity and their memory; the plan keeps none alive."""

    def body():
        grid, halo = line(path)
        rng = own_random(1, grid)
        kept, seen, repeated = [], set(), 0
        for step in range(80):
            kind = rng.choice(["C", "C", "arena", "steps", "sharded"])
            if kind == "sharded":
                u = sg.zeros((6,), halo.layout.sharding, grid, "i8")
            else:
                u = in_memory(np.zeros(4, int), kind, grid)
            repeated += id(u) in seen
            seen.add(id(u))
            check_line(grid, halo, u, step, None if step % 2 else lambda x: [halo.start(x), halo.wait()])
            if rng.random() < 0.1:
                kept.append(u)
        assert repeated
        ref = weakref.ref(u)
        del u
        kept.clear()
        gc.collect()
        assert ref() is None
        halo.close()

    in_any_order(3, body)


def test_arrays_in_cycles(spmd):
    """They die when the collector comes round, in the middle of anything."""

    class Holder:
        pass

    def body():
        grid, halo = line()
        for step in range(40):
            holder = Holder()
            holder.me, holder.u = holder, np.zeros(4, int)
            check_line(grid, halo, holder.u, step)
            if step % 15 == grid.rank:
                gc.collect()
        halo.close()

    spmd(3, body)


def test_many_arrays_by_turns(spmd, path):
    """More than a plan remembers; in an order of its own on each rank."""

    def body():
        grid, halo = line(path)
        arrays = [np.zeros(4, int) for _ in range(300)]
        order = own_random(2, grid).sample(range(300), 300)
        for step, number in enumerate(order + order):
            check_line(grid, halo, arrays[number], step)
        halo.close()

    spmd(3, body)


@pytest.mark.parametrize("form", ["update", "start", "only_dirty", "sharded"])
def test_an_array_made_read_only_after_an_update(in_any_order, form, path):
    """Every rank that waits for it raises, and all go on when it may be written again."""

    def body():
        grid, halo = line(path, 4)
        local = np.zeros(4, int)
        u = sg.ShardedArray(local, halo.layout, grid) if form == "sharded" else local
        update = {
            "start": lambda x: [halo.start(x), halo.wait()],
            "only_dirty": lambda x: halo.update(x, only_dirty=True),
        }.get(form, halo.update)
        for step in range(0, 9, 3):
            check_line(grid, halo, u, step, update)
            before = local.copy()
            local.flags.writeable = grid.rank != 1
            if grid.rank < 3:
                with pytest.raises(sg.OutputError, match=r"read-only.*rank 1 \(1,\)"):
                    update(u)
                assert np.array_equal(local, before)
            else:
                update(u)
            local.flags.writeable = True
            check_line(grid, halo, u, step + 1, update)
        halo.close()

    in_any_order(4, body)


def test_an_array_that_is_moved(spmd):
    """The same object over other memory is looked at anew."""

    def body():
        grid, halo = line()
        u, others = np.zeros(4, int), []
        for step in range(10):
            check_line(grid, halo, u, step, None if step % 3 else lambda x: [halo.start(x), halo.wait()])
            others.append(np.zeros(4, int))  # so that what is freed is not what is had next
            u.__setstate__(np.full(4, step).__reduce__()[2])
            if step % 4 == 3 and grid.rank == 1:
                u.__setstate__(np.zeros(3, int).__reduce__()[2])
            if step % 4 == 3:
                with pytest.raises(sg.ShapeError, match=r"shape \(3,\)"):
                    halo.update(u)
                u.__setstate__(np.zeros(4, int).__reduce__()[2])
        halo.close()

    spmd(3, body)


@pytest.mark.filterwarnings("ignore:Setting the (shape|strides|dtype):DeprecationWarning")
@pytest.mark.parametrize("change", ["shape", "strides", "dtype"])
def test_an_array_whose_words_are_changed_in_place(spmd, change):
    """The same object over the same memory, which is not what it was when it came first."""

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (4, 2), "f8") as halo:
            u = np.full((4, 2), grid.rank + 1.0)
            halo.update(u)
            if change == "strides":
                u.strides = (8, 32)  # as in Fortran
                u[...] = np.arange(8.0).reshape(4, 2) + 10 * grid.rank
                wanted = u.copy()
                wanted[0 if grid.rank else 3] = np.array([4.0, 5.0] if grid.rank else [12.0, 13.0])
                halo.update(u)
                assert np.array_equal(u, wanted)
                return
            if change == "shape":
                u.shape = (2, 4)
            else:
                u.dtype = "i8"
            with pytest.raises(sg.ShapeError if change == "shape" else sg.DTypeError):
                halo.update(u)

    spmd(2, body)


# -- what has changed alone ------------------------------------------------------------------------------------


def test_what_is_not_dirty_is_not_copied(in_any_order, path):
    """A halo cell that is written over here stays so until the owner marks its array.

    The update after the one that sent it may send it once more: neighbours have not said yet that they have it.
    """

    def body():
        grid, halo = line(path)
        u = sg.zeros((6,), halo.layout.sharding, grid, "i8")
        low, high = grid.rank > 0, grid.rank < 2
        check_line(grid, halo, u, 1, lambda x: halo.update(x, only_dirty=True))
        halo.update(u, only_dirty=True)
        for owner in range(3):
            before = False
            for marked in (False, True, True, False, False, True, False, False):
                u.local[0] = u.local[-1] = -5
                if marked and grid.rank == owner:
                    u.core[:] += 1
                    u.mark_dirty()
                mine = u.core.copy()
                halo.update(u, only_dirty=True)
                for cell, here, side in (0, low, -1), (-1, high, 1):
                    its_own = here and grid.rank + side == owner
                    if marked or not before:
                        assert (u.local[cell] != -5) == (marked and its_own)
                    else:
                        assert u.local[cell] == -5 or its_own
                assert np.array_equal(u.core, mine)
                before = marked
        halo.update(u)  # all of it, dirty or not
        assert (u.local[0] != -5, u.local[-1] != -5) == (low, high)
        halo.close()

    in_any_order(3, body)


def test_some_fields_are_dirty(spmd, path):
    """Each field of each rank by itself, as chance has it; local arrays are always sent."""

    def body():
        grid = sg.init_grid((4,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (8,), ["i8", "f4", "i2"], True, n_fields=3, path=path) as halo:
            fields = [sg.zeros((8,), sharding, grid, "i8"), sg.zeros((8,), sharding, grid, "f4"), np.zeros(4, "i2")]
            chance = random.Random(4)  # the same on all ranks
            value = np.zeros((4, 3), int)
            before = [[True] * 3 for _ in range(4)]
            halo.update(*fields, only_dirty=True)
            for _ in range(40):
                dirty = [[chance.random() < 0.4 for _ in range(3)] for _ in range(4)]
                for f, field in enumerate(fields):
                    local = getattr(field, "local", field)
                    for rank in range(4):
                        value[rank, f] += dirty[rank][f] * chance.randrange(1, 9)
                    local[1:-1] = value[grid.rank, f]
                    local[0] = local[-1] = -5
                    if f < 2 and dirty[grid.rank][f]:
                        field.mark_dirty()
                halo.update(*fields, only_dirty=True)
                for f, field in enumerate(fields):
                    local = getattr(field, "local", field)
                    for cell, rank in (0, (grid.rank - 1) % 4), (-1, (grid.rank + 1) % 4):
                        if f == 2 or dirty[rank][f]:
                            assert local[cell] == value[rank, f]
                        elif before[rank][f]:
                            assert local[cell] in (value[rank, f], -5)
                        else:
                            assert local[cell] == -5
                before = dirty

    spmd(4, body)


def test_dirty_and_plain_updates_mixed(spmd, path):
    """Ranks need not agree on whether they name what has changed."""

    def body():
        grid, halo = line(path)
        u = sg.zeros((6,), halo.layout.sharding, grid, "i8")
        for step in range(20):
            u.mark_dirty()
            if (step + grid.rank) % 3:
                check_line(grid, halo, u, step, lambda x: halo.update(x, only_dirty=True))
            else:
                check_line(grid, halo, u, step)
        halo.close()

    spmd(3, body)


def test_arrays_by_turns_are_dirty_each_by_itself(spmd, path):
    def body():
        grid, halo = line(path)
        arrays = [sg.zeros((6,), halo.layout.sharding, grid, "i8") for _ in range(3)]
        for step in range(12):
            u = arrays[step % 3]
            if step < 3 or step % 2:
                u.mark_dirty()
                check_line(grid, halo, u, step, lambda x: halo.update(x, only_dirty=True))
            else:
                u.local[0] = -5
                halo.update(u, only_dirty=True)
                assert u.local[0] == -5
        new = sg.zeros((6,), halo.layout.sharding, grid, "i8")  # never seen: all of it
        check_line(grid, halo, new, 99, lambda x: halo.update(x, only_dirty=True))
        halo.close()

    spmd(3, body)


@pytest.mark.parametrize("between", [0, 1, 4])
def test_what_a_refused_update_did_not_bring_is_still_dirty(in_any_order, path, between):
    """Rank 0 makes rank 1 refuse, which thus does not get what rank 2 has sent: it must come with the next update.

    ``between``: updates of another array that end well in the meantime.
    """

    def body():
        grid, halo = line(path)
        u, other = (sg.zeros((6,), halo.layout.sharding, grid, "i8") for _ in range(2))
        results = []
        for turn in range(2):
            u.core[:] = 10 * turn + grid.rank + 1
            u.mark_dirty()
            if grid.rank < 2:
                with pytest.raises(sg.ShapeError):
                    halo.update(u if grid.rank else np.zeros(9, int), only_dirty=True)
            else:
                halo.update(u, only_dirty=True)
            for step in range(between):
                other.mark_dirty()
                check_line(grid, halo, other, step, lambda x: halo.update(x, only_dirty=True))
            halo.update(u, only_dirty=True)
            results.append(u.local.tolist())
        halo.close()
        return results

    assert in_any_order(3, body) == [
        [[0, 1, 1, 2], [0, 11, 11, 12]],
        [[1, 2, 2, 3], [11, 12, 12, 13]],
        [[2, 3, 3, 0], [12, 13, 13, 0]],
    ]


def test_dirty_with_boundaries_and_its_own_neighbour(spmd, path):
    """What moves within the own array, and constants, are always put."""

    def body():
        grid = sg.init_grid((2, 1))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 1, 1])
        with sg.HaloExchange(grid, sharding, (4, 3), "i8", [False, True], boundary=7, path=path) as halo:
            u = sg.from_function(lambda i, j: 10 * i + j, (4, 3), sharding, grid)
            for _ in range(3):
                u.local[:, 0] = -5
                halo.update(u, only_dirty=True)
                assert u.local[1:3, 0].tolist() == u.core[:, -1].tolist()
                assert (u.local[0 if grid.rank == 0 else -1] == 7).all()

    spmd(2, body)


# -- the lives of plans ----------------------------------------------------------------------------------------


def test_close(spmd):
    def body():
        grid, halo = line()
        u = np.zeros(4, int)
        check_line(grid, halo, u, 1)
        halo.close()
        halo.close()
        for use in (halo.update, halo.start, halo.accumulate, lambda x: halo.update(x, only_dirty=True)):
            for x in u, np.zeros(4, int), None:
                with pytest.raises(sg.RequestError, match="closed"):
                    use(x)
        for use in halo.wait, halo.poke:
            with pytest.raises(sg.RequestError):
                use()
        with pytest.raises(ValueError, match="on purpose"), line()[1] as halo:
            raise ValueError("on purpose")
        with pytest.raises(sg.RequestError, match="closed"):
            halo.update(u)
        assert sg.all_reduce(1, grid, [0], "sum") == 3

    spmd(3, body)


def test_a_plan_that_is_forgotten_while_others_are_used(in_any_order, path):
    """Plans that are closed, forgotten, or left to the collector, each rank's at another moment."""

    def body():
        grid, first = line(path)
        rng = own_random(6, grid)
        plans = []
        for step in range(12):
            _, new = line(path, width=1 + step % 2)
            plans.append(new)
            keep_updating(grid, new, updates=1 + step % 3)
            check_line(grid, first, np.zeros(4, int), step)
            if step % 4 == 3:
                for plan in plans[:-2]:
                    end = rng.randrange(3)
                    if end == 0:
                        plan.close()
                    elif end == 1:
                        plan.itself = plan  # a cycle
                del plan, new
                plans = plans[-2:]
            for plan in plans:
                keep_updating(grid, plan, updates=1, first=step)
            plan = None
        gc.collect()
        check_line(grid, first, np.zeros(4, int), 99)

    in_any_order(3, body)


def test_many_plans_one_after_the_other(spmd):
    """What they held is given back: neither memory nor anything that is looked through grows."""

    def body(ways, count):
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])

        def make(count):
            for number in range(count):
                halo = sg.HaloExchange(grid, sharding, (64, 64), "f8", path=ways[number % len(ways)])
                u = sg.zeros((64, 64), sharding, grid)
                halo.update(u)
                if number % 3 == 0:
                    halo.close()
                elif number % 3 == 1:
                    halo.start(u)
                    halo.wait()

        make(20)
        gc.collect()
        tracemalloc.start()
        try:
            make(count)  # until all that is kept in bounded numbers is there
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            make(count)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert len(grid._world.process.retired) <= 2
        # Those of the last plan, what grids keep of agreements, and counts for the lifeline.
        assert after - before < 400 * count, f"{(after - before) / count} B per plan"

    spmd(2, body, [None, "read", "staged", "packed", "straight"], 200)


@pytest.mark.parametrize("path", ["staged", "message"])
def test_large_plans_give_their_memory_back(spmd, path):
    """Buffers of 1 MiB and more, plan after plan."""

    def resident_mib():
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        u = sg.zeros((4, 1 << 16), sharding, grid)
        sizes = []
        for _ in range(4):
            for _ in range(20):
                halo = sg.HaloExchange(grid, sharding, (4, 1 << 16), "f8", path=path)
                halo.update(u)
                halo.update(u)
            del halo
            sizes.append(resident_mib())
        assert sizes[3] - sizes[0] < 25, sizes

    if Path("/proc/self/status").exists():
        spmd(2, body)


def test_plans_of_separate_groups_in_any_order(in_any_order):
    """Rows make their plans and updates as they like; a plan across them is made by all in between."""

    def body():
        grid = sg.init_grid((2, 3))
        along = sg.Sharding(grid, [[1]], halo_sizes=[1, 1])
        across = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        for turn in range(3):
            for _ in range(1 + 2 * ((grid.coords[0] + turn) % 2)):
                check_updates(grid, along, (7,), updates=1 + grid.coords[0], periodic=True)
            check_updates(grid, across, (3,), updates=2)

    in_any_order(6, body)


def test_plans_of_one_layout_side_by_side(in_any_order):
    """Many plans, used by turns: what belongs to one is never taken for another's."""

    def body():
        grid, _ = line()
        plans = [line(path, width=width)[1] for path in PATHS for width in (1, 2)]
        chance = random.Random(3)
        for step in range(40):
            keep_updating(grid, chance.choice(plans), updates=1, first=step, forms=["start" if step % 3 else "update"])
        for plan in plans:
            plan.close()

    in_any_order(3, body)


def test_repr_of_what_is_planned(spmd):
    """A plan knows its layout, pattern and dtypes."""

    def body():
        grid, sharding, shape = plane()
        with sg.HaloExchange(grid, sharding, list(shape), ["f4", ">i2"], [True, False], False) as halo:
            assert halo.layout.sharding == sharding and halo.layout.global_shape == shape
            assert halo.pattern.periodic == (True, False) and not halo.pattern.corners
            assert halo.dtypes == (np.dtype("f4"), np.dtype(">i2"))

    spmd(4, body)
