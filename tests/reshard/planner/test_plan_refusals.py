"""Plans that are refused, when they are made or when they run: alike on every process."""

import numpy as np
import pytest

import spmd_grid as sg

GRID = sg.Grid((2, 2))
ROWS, COLUMNS = sg.Sharding(GRID, [[0]]), sg.Sharding(GRID, [[], [0]])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (("rows", COLUMNS, (4, 4), "f8"), {}, sg.ShardingError, "source is 'rows'"),
        ((ROWS, None, (4, 4), "f8"), {}, sg.ShardingError, "target is None"),
        ((ROWS, COLUMNS, (4,), "f8"), {}, sg.ShardingError, "splits dimension 1"),
        ((ROWS, COLUMNS, 4, "f8"), {}, sg.ShardingError, "global_shape is 4"),
        ((ROWS, COLUMNS, (4.0, 4), "f8"), {}, sg.ShardingError, "integers from 0"),
        ((ROWS, COLUMNS, (4, -1), "f8"), {}, sg.ShardingError, "integers from 0"),
        ((ROWS, COLUMNS, (4, 4), "f9"), {}, sg.DTypeError, "f9"),
        ((ROWS, COLUMNS, (4, 4), "O"), {}, sg.DTypeError, "Python objects"),
        ((ROWS, COLUMNS, (4, 4), []), {}, sg.DTypeError, "at least one"),
        ((ROWS, COLUMNS, (4, 4), "f8", "fast"), {}, sg.ShardingError, "auto, basis, direct"),
        ((ROWS, COLUMNS, (4, 4), "f8", ["auto"]), {}, sg.ShardingError, "strategy"),
        ((ROWS, COLUMNS, (4, 4), "f8"), {"memory_limit": "1 GB"}, sg.ShardingError, "memory_limit is '1 GB'"),
        ((ROWS, COLUMNS, (4, 4), "f8"), {"memory_limit": True}, sg.ShardingError, "memory_limit is True"),
        ((ROWS, COLUMNS, (4, 4), "f8"), {"links": 5}, sg.ShardingError, "LinkModel"),
        ((sg.Sharding(GRID, [], partial_axes=[0]), ROWS, (4, 4), "S3"), {}, sg.DTypeError, "numeric"),
        (
            (sg.Sharding(GRID, [], partial_axes=[0], partial_kind="bitwise_or"), ROWS, (4, 4), "f8"),
            {},
            sg.DTypeError,
            "bitwise",
        ),
        (
            (sg.Sharding(GRID, [[0]], sharded_dims_offsets=[[0, 1, 4]]), COLUMNS, (5, 4), "f8"),
            {},
            sg.ShardingError,
            "cover its extent 5",
        ),
    ],
)
def test_plans_refuse(arguments, options, error, words):
    with pytest.raises(error, match=words) as refusal:
        sg.plan_reshard(*arguments, **options)
    assert isinstance(refusal.value, sg.SpmdError)


class Broken:
    """An array that fails while it is looked at."""

    @property
    def layout(self):
        raise RuntimeError("broken")


def test_runs_refuse_on_every_process_alike(spmd):
    """One process alone is wrong: all raise its error, which names it; then the plan runs as if nothing had been."""

    def body():
        grid = sg.init_grid((2, 2))
        rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        plan = sg.plan_reshard(rows, columns, (4, 6), "f8")
        local = np.ones((2, 6))
        out = np.empty((4, 3))
        read_only = np.empty((4, 3))
        read_only.flags.writeable = False
        big = np.empty(40)
        for turn in range(2):  # before the plan has been bound, and after
            for bad in (
                {"local": np.ones((2, 5))},
                {"local": np.ones((2, 6), "f4")},
                {"local": None},
                {"local": [local, local]},
                {"local": "abc"},
                {"local": []},
                {"local": Broken()},
                {"out": []},
                {"out": [out]},
                {"out": np.empty((4, 2))},
                {"out": np.empty((4, 3), "f4")},
                {"out": read_only},
                {"out": [[1.0] * 3] * 4},
                {"out": np.broadcast_to(np.empty((1, 3)), (4, 3)).copy()[:, :1].repeat(3, 1).T.copy().T[:3]},
                {"local": big[:12].reshape(2, 6), "out": big[6:18].reshape(4, 3)},
            ):
                arguments = {"local": local, "out": out} | (bad if grid.rank == 2 else {})
                out[...] = -1
                with pytest.raises(sg.SpmdError, match=r"rank 2 \(1, 0\)|on rank 2") as refusal:
                    sg.run_plan(plan, arguments["local"], grid, arguments["out"])
                assert (out == -1).all(), "nothing has moved"
                texts = sg.all_gather(np.array([str(refusal.value)], "U300"), grid, [0, 1], 0)
                assert len(set(texts.tolist())) == 1
            if turn == 0:
                sg.run_plan(plan, local, grid, out)
        assert (sg.run_plan(plan, local, grid, out) == 1).all()

    spmd(4, body)


def test_runs_refuse_what_all_know(spmd):
    def body():
        grid, line = sg.init_grid((2, 2)), sg.init_grid((4,))
        rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        plan = sg.plan_reshard(rows, columns, (4, 6), "f8")
        local = np.ones((2, 6))
        for error, words, call in (
            (sg.ShardingError, "must be a Plan", lambda: sg.run_plan("plan", local, grid)),
            (sg.GridError, "bound to processes", lambda: sg.run_plan(plan, local, sg.Grid((2, 2)))),
            (sg.GridError, "the layouts are on", lambda: sg.run_plan(plan, local, line)),
            (sg.ShardingError, "target is 3", lambda: sg.reshard(local, rows, 3, grid, (4, 6))),
            (sg.ShardingError, "splits dimension 1", lambda: sg.reshard(local, rows, columns, grid, (4,))),
            (sg.ShardingError, "strategy", lambda: sg.reshard(local, rows, columns, grid, (4, 6), strategy="x")),
        ):
            with pytest.raises(error, match=words):
                call()
        big = sg.Sharding(sg.Grid((8,)), [[0]])
        with pytest.raises(sg.GridError, match="process 7"):
            sg.reshard(local, rows, big, grid, (4, 6))
        grid.close()
        with pytest.raises(sg.GridError, match="closed"):
            sg.run_plan(plan, local, grid)

    spmd(4, body)


def test_different_plans_and_dtypes_are_told(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        target = columns if grid.rank else sg.Sharding(grid, [])
        with pytest.raises(sg.MismatchError, match="different arguments"):
            sg.reshard(np.ones((2, 4)), rows, target, grid, (4, 4))
        links = sg.LinkModel(node_latency=1e-9)
        for options in ({"memory_limit": 10**9}, {"links": links}, {"strategy": "basis"}):
            for turn in range(2):
                with pytest.raises(sg.MismatchError):
                    sg.reshard(np.ones((2, 4)), rows, columns, grid, (4, 4), **(options if grid.rank else {}))
                if turn == 0:
                    sg.reshard(np.ones((2, 4)), rows, columns, grid, (4, 4))
        plans = [sg.plan_reshard(rows, columns, (4, 4), "f8", links=each) for each in (None, links)]
        with pytest.raises(sg.MismatchError):
            sg.run_plan(plans[grid.rank], np.ones((2, 4)), grid)
        sg.run_plan(plans[0], np.ones((2, 4)), grid)
        with pytest.raises(sg.DTypeError, match="dtypes differ"):
            sg.reshard(np.ones((2, 4), "f4" if grid.rank else "f8"), rows, columns, grid, (4, 4))
        with pytest.raises(sg.MismatchError):
            if grid.rank:
                sg.all_reduce(np.ones(2), grid, [0])
            else:
                sg.reshard(np.ones((2, 4)), rows, columns, grid, (4, 4))

    spmd(2, body)
