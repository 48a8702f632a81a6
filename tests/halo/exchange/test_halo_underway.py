"""Updates that are started and waited for: alone, side by side, and mixed with everything else."""

import random

import numpy as np
import pytest
from support.halo.exchange_oracle import dawdle, keep_updating, own_random
from support.halo.started import LAYOUTS, Started

import spmd_grid as sg


def test_start_poke_wait(in_any_order, path):
    def body():
        grid = sg.init_grid((2, 2))
        rng = own_random(1, grid)
        for number in range(len(LAYOUTS)):
            update = Started(grid, number, path, n_fields=2)
            for _ in range(6):
                update.start()
                dawdle(rng)
                for _ in range(rng.randrange(3)):
                    assert update.halo.poke() in (True, False)
                if update.halo.poke():
                    assert update.halo.poke()
                update.wait()
            update.halo.close()

    in_any_order(4, body)


def test_poke_until_it_has_arrived(in_any_order, path):
    """A program that does nothing but look lets the others go on, also where a seed says who does."""

    def body():
        grid = sg.init_grid((2, 2))
        for number in 0, 2:
            update = Started(grid, number, path)
            for _ in range(4):
                update.start()
                assert any(update.halo.poke() for _ in range(10**6)), "it never arrives"
                update.wait()

    in_any_order(4, body)


def test_several_plans_in_another_order_on_each_rank(in_any_order, path):
    """Started in one order of each rank's own, waited for in another, with other work between."""

    def body():
        grid = sg.init_grid((2, 2))
        rng = own_random(2, grid)
        updates = [Started(grid, number, path, ["C", "arena", "F"][number % 3]) for number in range(6)]
        for _ in range(5):
            for update in rng.sample(updates, len(updates)):
                update.start()
                dawdle(rng)
            for update in rng.sample(updates, len(updates)):
                if rng.random() < 0.3:
                    update.halo.poke()
                update.wait()
        for update in updates:
            update.halo.close()

    in_any_order(4, body)


def test_with_other_operations_between(in_any_order, path):
    """Blocking and started collectives, sends, other plans' updates, new plans; some arrive before that is asked."""

    def body():
        grid = sg.init_grid((2, 2))
        rng, chance = own_random(3, grid), random.Random(5)
        updates = [Started(grid, number, path) for number in range(4)]
        other = Started(grid, 0, None)
        for step in range(8):
            for update in updates:
                update.start()
            for _ in range(3):
                kind = chance.randrange(7)
                dawdle(rng)
                if kind == 0:
                    assert sg.all_reduce(grid.rank, grid, [0, 1], "sum") == 6
                elif kind == 1:
                    request = sg.all_gather.start(np.full(2, grid.rank), grid, [0, 1], 0)
                    assert request.wait().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
                elif kind == 2:
                    if grid.rank == 1:
                        sg.send(np.full(100, step), grid, [0, 1], [1, 0])
                    elif grid.rank == 2:
                        assert sg.recv(grid, [0, 1], [0, 1])[99] == step
                elif kind == 3:
                    keep_updating(grid, other.halo, updates=2, first=step)
                elif kind == 4:
                    Started(grid, chance.randrange(4), path).halo.close()
                elif kind == 5:
                    x = np.zeros((4, 4))
                    sg.update_halo(x, grid, [[0], [1]], [1, 1, 1, 1])
                else:
                    other.fill()
                    other.halo.accumulate(*other.fields)
            for update in rng.sample(updates, len(updates)):
                update.wait()

    in_any_order(4, body)


def test_an_update_that_has_arrived_lets_others_wait(in_any_order, path):
    """It has nothing to wait for any more, and must not keep those who wait for something else from doing so."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        halo = sg.HaloExchange(grid, sharding, (6,), "i8", path=path)
        u = np.full(4, grid.rank)
        for _ in range(3):
            halo.start(u)
            for _ in range(4):
                assert sg.all_reduce(1, grid, [0], "sum") == 3
                sg.send(1, grid, [0], [(grid.rank + 1) % 3])
                sg.recv(grid, [0], [(grid.rank - 1) % 3])
            halo.wait()
        halo.close()
        return u.tolist()

    assert in_any_order(3, body) == [[0, 0, 0, 1], [0, 1, 1, 2], [1, 2, 2, 2]]


def test_plans_made_while_messages_are_on_their_way(in_any_order, path):
    """A receive that waits for a later send takes no message of a plan that is made meanwhile, nor the other way."""

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        for size in 3, 1000:
            asked = sg.recv.start(grid, [0], [0]) if grid.rank else None
            sent = None if grid.rank else sg.send.start(np.arange(size), grid, [0], [1])
            halo = sg.HaloExchange(grid, sharding, (4,), "i8", path=path)
            keep_updating(grid, halo, updates=2)
            if grid.rank:
                assert asked.wait().tolist() == list(range(size))
            else:
                sent.wait()
            if grid.rank:
                late = sg.recv.start(grid, [0], [0])
            halo.accumulate(np.zeros(4, int))
            other = sg.HaloExchange(grid, sharding, (4,), "i8", path=path)
            keep_updating(grid, other, updates=2)
            if grid.rank:
                assert late.wait().tolist() == list(range(size, 0, -1))
            else:
                sg.send(np.arange(size, 0, -1), grid, [0], [1])
            halo.close()
            other.close()

    in_any_order(2, body)


def test_some_ranks_start_others_update(in_any_order, path):
    """The two forms meet."""

    def body():
        grid = sg.init_grid((2, 2))
        update = Started(grid, 0, path)
        for step in range(8):
            if (grid.rank + step) % 3:
                update.start()
                update.wait()
            else:
                update.fill()
                update.halo.update(*update.fields)
                update.check()
        update.halo.close()

    in_any_order(4, body)


def test_with_statement(in_any_order):
    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        u = np.full(4, grid.rank)
        with sg.HaloExchange(grid, sharding, (4,), "i8") as halo:
            halo.start(u)
            halo.wait()
        with pytest.raises(sg.RequestError, match="closed"):
            halo.start(u)
        with pytest.raises(sg.RequestError, match="under way"), sg.HaloExchange(grid, sharding, (4,), "i8") as halo:
            halo.start(u)  # and not waited for
        halo.wait()
        halo.close()
        with pytest.raises(ZeroDivisionError), sg.HaloExchange(grid, sharding, (4,), "i8") as halo:
            halo.start(u)
            raise ZeroDivisionError  # which is what is heard of
        halo.wait()
        halo.close()

    in_any_order(2, body)


def test_arrays_that_are_let_go_while_under_way(in_any_order, path):
    """The update keeps them until it has ended."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (6,), "i8", path=path) as halo:
            for step in range(10):
                u = sg.full((6,), sharding, grid, "i8", fill_value=step) if step % 2 else np.full(4, step)
                local = u.local.view() if step % 2 else u.view()
                halo.start(u)
                del u
                others = [np.zeros(4, int) for _ in range(10)]
                halo.wait()
                assert local[1:-1].tolist() == [step] * 2 and len(others) == 10
                assert grid.rank == 0 or local[0] == step

    in_any_order(3, body)


def test_many_other_arrays_while_one_is_under_way(spmd, path):
    """The plan keeps what belongs to the one, however much it forgets of the others."""

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (4,), "i8", path=path) as halo:
            others = [np.zeros(4, int) for _ in range(300)]
            for step in range(3):
                u = np.full(4, 10 * step + grid.rank)
                halo.start(u)
                for other in others:
                    with pytest.raises(sg.RequestError, match="under way"):
                        halo.update(other)
                litter = [np.full(40, -1) for _ in range(2000)]
                halo.wait()
                assert u[0 if grid.rank else -1] == 10 * step + 1 - grid.rank and len(litter) == 2000

    spmd(2, body)
