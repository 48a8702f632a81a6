"""HaloExchange: the lives of arrays and plans, which come and go as they like."""

import gc
import random
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest
from support.halo.exchange_oracle import PATHS, check_updates, in_memory, keep_updating, own_random
from support.halo.small_plans import check_line, line, plane

import spmd_grid as sg

# -- what becomes of arrays ------------------------------------------------------------------------------------


def test_arrays_that_die_between_updates(in_any_order, path):
    """Others take their identity and their memory; the plan keeps none alive."""

    def body():
        grid, halo = line(path)
        rng = own_random(1, grid)
        kept, seen, repeated = [], set(), 0
        for step in range(50):
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
    """They give back all that they held: neither memory nor anything that is looked through grows."""

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
        assert sizes[3] - sizes[1] < 30, sizes  # plans that stay take 80

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
