"""The dialect's own tests and documents about geometry, as data; each case runs by name or says why it does not."""

import json
from itertools import accumulate
from pathlib import Path

import pytest

from spmd_grid.errors import SpmdError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.groups import group_color, group_index, group_members
from spmd_grid.grid.sharding import Sharding

CASES = {case["name"]: case for case in json.loads((Path(__file__).parent / "dialect_geometry_cases.json").read_text())}

NOT_HERE = {
    "neighbors_two_axes": "a limit of the compiler's lowering; here several split axes are taken, see the test below",
    "sharding_halo_and_offsets": "halos and offsets go together here, see the test below",
    "grid_shape_results": "a call declares no number of results",
    "process_multi_index_results_empty": "a call declares no number of results",
    "grid_shape_unknown_grid": "a grid is a value, not a symbol that may be unknown",
}


def remainder_last(sizes):
    """The compiler's run time gives the remainder to the last shards: a rule that explicit offsets express."""
    return list(accumulate(sizes, initial=0))


def run_group(case):
    grid = Grid(case["grid"])
    origin = [0] * grid.ndim
    for axis, coord in case["fixed"].items():
        origin[int(axis)] = coord
    members = group_members(grid, origin, grid.axes(case["grid_axes"]))
    first = [list(grid.multi_index(member)) for member in members[: len(case["first_devices"])]]
    assert first == case["first_devices"]


def run_comm_group(case):
    grid = Grid(case["grid"])
    coords, axes = grid.multi_index(case["rank"]), grid.axes(case["grid_axes"])
    assert list(coords) == case["multi_index"]
    assert (group_color(grid, coords, axes), group_index(grid, coords, axes)) == (case["color"], case["key"])


def run_index(case):
    grid = Grid(case["grid"])
    assert list(grid.multi_index(case["linear"], case.get("axes"))) == case.get("result", case.get("multi_index"))
    if "multi_index" in case:
        assert grid.linear_index(case["multi_index"]) == case["linear"]


def run_neighbors(case):
    found = Grid(case["grid"]).neighbors_linear_indices(case["multi_index"], case["split_axes"])
    assert found == (case["down"], case["up"])


def run_shard_shape(case):
    offsets = case.get("sharded_dims_offsets") or [remainder_last(sizes) for sizes in case["all_sizes"]]
    sharding = Sharding(Grid(case["grid"]), case["split_axes"], sharded_dims_offsets=offsets)
    assert list(sharding.shard_shape(case["dims"], case["device"])) == case["result"]


def run_shard_shape_conflict(case):
    grid = Grid(case["grid"])
    expected = {
        Sharding(grid, [[0]]): case["by_seed_ceildiv"],
        Sharding(grid, [[0]], blocks="balanced"): [6, 5, 5],
        Sharding(grid, [[0]], sharded_dims_offsets=remainder_last(case["by_runtime_rule"])): case["by_runtime_rule"],
    }
    for sharding, extents in expected.items():
        assert [sharding.shard_shape(case["dims"], (m,))[0] for m in range(3)] == extents


def run_local_shapes(case):
    grid = Grid(case["grid"])
    sharding = Sharding(grid, case["split_axes"], sharded_dims_offsets=case["sharded_dims_offsets"])
    found = [list(sharding.shard_shape(case["shape"], grid.multi_index(linear))) for linear in range(grid.size)]
    assert found == case["locals"]


def run_local_shapes_by_device(case):
    sharding = Sharding(Grid(case["grid"]), case["split_axes"], sharded_dims_offsets=case["sharded_dims_offsets"])
    for device, shape in case["locals"].items():
        assert list(sharding.shard_shape(case["shape"], [int(coord) for coord in device.split(",")])) == shape


REFUSALS = {  # by error, what our message says
    "rank_not_positive": "at least one size",
    "parse_error": "at least 1",
    "grid_axis_duplicated": "must not be listed twice",
    "grid_axis_negative": "go from 0 to 1",
    "halo_count_not_2_per_split_dim": "has 2 entries; it must have 4",
    "offsets_wrong_size": "has 7 entries; it must have 8",
    "offsets_decreasing": "has 4 entries; it must have 5",  # its list is short as well, which we see first
    "grid_axis_out_of_bounds": "go from 0 to 1",
    "grid_axes_duplicate": "must not be listed twice",
    "extra entries are ignored": "has 4 entries; it must have 3",
    "first need not be 0, last need not be the dim size": "begins with 1",
}


def run_verify_error(case):
    with pytest.raises(SpmdError, match=REFUSALS[case.get("error", case.get("why"))]):
        grid = Grid(case["grid"])
        if case["op"] == "process_multi_index":
            grid.multi_index(0, case["axes"])
        if case["op"] == "sharding":
            options = {name: case.get(name) for name in ("halo_sizes", "sharded_dims_offsets")}
            Sharding(grid, case["split_axes"], **options)


run_verify_gap = run_verify_error
RUN = [name for name in CASES if name not in NOT_HERE]


@pytest.mark.parametrize("name", RUN)
def test_case(name):
    globals()[f"run_{CASES[name]['kind']}"](CASES[name])


def test_every_case_is_run_or_listed():
    assert set(NOT_HERE) <= set(CASES) and len(RUN) + len(NOT_HERE) == len(CASES) == 30
    assert all(f"run_{CASES[name]['kind']}" in globals() for name in RUN)


def test_taken_here_though_the_dialect_refuses():
    assert Grid((3, 4, 5)).neighbors_linear_indices((1, 0, 4), [0, 1]) == (19, 29)
    sharding = Sharding(Grid((2, 4)), [[0]], halo_sizes=[1, 2], sharded_dims_offsets=[0, 2, 2])
    assert sharding.shard_shape((2,), (1, 0)) == (3,)
