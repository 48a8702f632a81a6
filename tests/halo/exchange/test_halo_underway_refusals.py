"""Updates that are under way: what is refused meanwhile, and ranks that do not come."""

import numpy as np
import pytest
from support.compiled import updates_holding
from support.halo.exchange_oracle import PATHS, keep_updating
from support.halo.started import Started

import spmd_grid as sg


def test_use_against_the_rules(spmd, path):
    """Refused on the spot, and what is under way comes to its end all the same."""

    def body():
        grid = sg.init_grid((2, 2))
        update = Started(grid, 0, path)
        halo, (u,) = update.halo, update.fields
        shape = u.shape
        for use in halo.wait, halo.poke:
            with pytest.raises(sg.RequestError, match="no update is under way"):
                use()
        for turn in range(4):
            update.start()
            for x in (u, u.copy(), np.zeros(shape, "f4"), np.zeros(9), None)[: None if turn else 2]:
                for use in halo.start, halo.update, halo.accumulate, lambda x: halo.update(x, only_dirty=True):
                    with pytest.raises(sg.RequestError, match="under way"):
                        use(x)
            with pytest.raises(sg.RequestError, match="under way"):
                halo.close()
            update.wait()
            with pytest.raises(sg.RequestError, match="no update is under way"):
                halo.wait()
            keep_updating(grid, halo, updates=2)
        halo.close()
        for use in (lambda: halo.start(u), lambda: halo.update(u), halo.wait, halo.poke):
            with pytest.raises(sg.RequestError):
                use()
        assert sg.all_reduce(1, grid, [0, 1], "sum") == 4

    spmd(4, body)


def test_wrong_arrays_while_long_messages_are_under_way(spmd):
    """A refusal on the spot must not reach into messages that have not left yet."""

    def body():
        grid = sg.init_grid((2,))
        shape = (4, 300_000)
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        for path in PATHS:
            with sg.HaloExchange(grid, sharding, shape, "f8", path=path) as halo:
                for step in range(3):
                    u = sg.full(shape, sharding, grid, fill_value=10 * step + grid.rank)
                    halo.start(u)
                    with pytest.raises(sg.RequestError, match="under way"):
                        halo.update(np.zeros(3))
                    halo.wait()
                    assert (u.local[0 if grid.rank else -1] == 10 * step + 1 - grid.rank).all()

    spmd(2, body)


def test_refusals_of_started_updates(in_any_order, path):
    """The culprit hears of it at once, partners at the latest when they wait; other plans go on."""

    def body():
        grid = sg.init_grid((4,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        halo = sg.HaloExchange(grid, sharding, (8,), "i8", path=path)
        other = sg.HaloExchange(grid, sharding, (8,), "i8", path=path)
        messages = []
        for culprit in 1, 3, 1:
            u, v = np.full(4, grid.rank), np.full(4, grid.rank)
            other.start(v)
            if grid.rank == culprit:
                with pytest.raises(sg.DTypeError) as caught:
                    halo.start(u.astype("f4"))
                messages.append(str(caught.value))
                with pytest.raises(sg.RequestError, match="no update is under way"):
                    halo.wait()
            elif abs(grid.rank - culprit) == 1:
                with pytest.raises(sg.DTypeError) as caught:
                    halo.start(u)
                    halo.wait()
                messages.append(str(caught.value))
                assert u.tolist() == [grid.rank] * 4
            else:
                halo.start(u)
                halo.wait()
                messages.append(None)
            other.wait()
            halo.update(u)
            for x in u, v:
                assert x.tolist() == [max(grid.rank - 1, 0), grid.rank, grid.rank, min(grid.rank + 1, 3)]
        halo.close()
        other.close()
        return messages

    by_rank = in_any_order(4, body)
    for turn, culprit in enumerate([1, 3, 1]):
        found = {by_rank[rank][turn] for rank in range(4) if abs(rank - culprit) <= 1}
        assert len(found) == 1 and f"rank {culprit} " in next(iter(found))
        assert all(by_rank[rank][turn] is None for rank in range(4) if abs(rank - culprit) > 1)


def test_an_array_that_is_made_read_only_under_way(spmd, path):
    """Too late to refuse for all: this rank hears of it, its array stays as it is, and the others get theirs."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (6,), "i8", path=path) as halo:
            for step in range(4):
                u = np.full(4, 10 * step + grid.rank)
                halo.start(u)
                if grid.rank == 1:
                    before = u.copy()
                    u.flags.writeable = False
                    # Unless it has arrived before: then it has been written while it could be.
                    try:
                        halo.wait()
                    except sg.RequestError as error:
                        assert "read-only" in str(error)
                        assert np.array_equal(u, before)
                else:
                    halo.wait()
                    assert u[-1 if grid.rank == 0 else 0] == 10 * step + 1
                keep_updating(grid, halo, updates=2)

    spmd(3, body)


# -- simulated ranks that wait without end -------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("form", ["update", "wait", "accumulate", "loop"])
def test_a_rank_that_does_not_come(form, path, seed):
    """It has ended, or waits for something else: reported with rank, operation and partners."""

    def body(how):
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        halo = sg.HaloExchange(grid, sharding, (6,), "i8", path=path)
        u = np.zeros(4, int)
        halo.update(u)
        halo.accumulate(u)
        if grid.rank == 1 and how == "ends":
            return
        if grid.rank == 1:
            sg.recv(grid, [0], [0])
        if form == "wait":
            halo.start(u)
            halo.wait()
        elif form == "loop":
            updates_holding(halo, u, 5)
        else:
            getattr(halo, form)(u)

    with pytest.raises(sg.RankEndedError, match="rank 1") as caught:
        sg.run_spmd(body, "ends", ranks=3, seed=seed)
    assert "HaloExchange" in str(caught.value) and "returned from the program" in str(caught.value)
    with pytest.raises(sg.DeadlockError, match="rank 1 waits in recv") as caught:
        sg.run_spmd(body, "waits", ranks=3, seed=seed)
    assert "rank 0 waits in HaloExchange" in str(caught.value) and "for rank 1" in str(caught.value)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_rank_that_does_not_come_while_an_update_has_arrived(seed):
    """Whoever has an update that only needs to be waited for can be part of a deadlock like anybody else."""

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        halo = sg.HaloExchange(grid, sharding, (4,), "i8")
        halo.start(np.zeros(4, int))
        sg.all_reduce(1, grid, [0], "sum")
        sg.recv(grid, [0], [1 - grid.rank])

    with pytest.raises(sg.DeadlockError, match="rank 1 waits in recv"):
        sg.run_spmd(body, ranks=2, seed=seed)
