"""Ranks in different operations, or with different arguments: one table on all of them."""

import pytest
from support.ops.refused_calls import X, call, caught

import spmd_grid as sg

MISMATCHES = {
    "operation": (("all_reduce", {}), ("all_gather", {})),
    "reduction": (("all_reduce", {"reduction": "sum"}), ("all_reduce", {"reduction": "max"})),
    "dtype": (("all_reduce", {"dtype": "f4"}), ("all_reduce", {"dtype": "f8"})),
    "root": (("broadcast", {"root": [0]}), ("broadcast", {"root": [1]})),
    "tensor axis": (("all_gather", {"gather_axis": 0}), ("all_gather", {"gather_axis": 1})),
    "extents": (("all_gather", {}), ("all_gather", {"extents": [2, 2]})),
    "offset": (("shift", {"offset": 1}), ("shift", {"offset": -1})),
    "rotate": (("shift", {}), ("shift", {"rotate": True})),
    "scatter and gather": (("scatter", {}), ("gather", {})),
    "one has an error too": (("all_reduce", {}), ("all_gather", {"x": None})),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(spmd, path, name):
    """One table on all ranks, a line per rank: what it was in, with which arguments."""
    calls = MISMATCHES[name]

    def body():
        grid = sg.init_grid((2, 1))
        op, args = calls[grid.rank]
        return caught(call, op, grid, **args), int(sg.all_reduce(1, grid, [0]))

    first, second = spmd(2, body)
    assert first == second
    (kind, families, message), total = first
    assert kind == "MismatchError" and families == {"RuntimeError"} and total == 2
    lines = message.splitlines()[1:]
    for line, rank, (op, args) in zip(lines, range(2), calls, strict=True):
        assert line.strip().startswith(f"rank {rank} ({rank}, 0): {op}(grid_axes=[0]"), message
        for argument in args:
            assert argument == "x" or f"{argument}=" in line, message
    assert len({line.partition(":")[2] for line in lines}) == 2, message


def test_plans_of_different_paths(spmd):
    """Bytes would go one way here and another way there."""

    def body():
        grid = sg.init_grid((2, 1))
        paths = ("inline", "message")[grid.rank]
        error = caught(sg.all_reduce.plan, grid, X.shape, X.dtype, [0], "sum", path=paths)
        return error, int(sg.all_reduce(1, grid, [0]))

    first, second = spmd(2, body)
    assert first == second and first[0][0] == "MismatchError" and first[1] == 2


def test_mismatch_of_many(spmd, path):
    """Three ranks, two operations; a started one and blocking ones."""

    def body():
        grid = sg.init_grid((3,))
        if grid.rank == 1:
            error = caught(lambda: sg.broadcast.start(X, grid, [0], [0]).wait())
        else:
            error = caught(sg.all_reduce, X, grid, [0])
        return error, int(sg.all_reduce(1, grid, [0]))

    results = spmd(3, body)
    assert results[0] == results[1] == results[2] and results[0][1] == 3
    kind, _, message = results[0][0]
    assert kind == "MismatchError"
    lines = [line.strip() for line in message.splitlines()[1:]]
    assert [line.split("(grid_axes")[0] for line in lines] == [
        "rank 0 (0,): all_reduce",
        "rank 1 (1,): broadcast.start",
        "rank 2 (2,): all_reduce",
    ]
