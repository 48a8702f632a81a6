"""The dialect's own cases: where those of each kind are run, and why some are not."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parents[2] / "dialect"
CASES = json.loads((HERE / "dialect_cases.json").read_text())["cases"]

# By kind the file of the tests that run it, from the folder of tests.
RUN_BY = {
    **dict.fromkeys(("verify_error", "verify_gap", "op_shape"), "dialect/test_text_cases.py"),
    **dict.fromkeys(("canonicalize", "simplify", "static_shard_type"), "dialect/test_simplifications.py"),
    **dict.fromkeys(("op_data", "op_data_by_rule", "index", "neighbors"), "dialect/test_number_cases_run.py"),
    **dict.fromkeys(("local_shapes", "local_shapes_by_device"), "dialect/test_number_cases_run.py"),
    "update_halo_data": "dialect/test_number_cases_run.py",
    **dict.fromkeys(("reshard", "reshard_wrong_plan", "reshard_shardy"), "dialect/test_cases_as_programs.py"),
    **dict.fromkeys(("reshard_unsupported_upstream", "reshard_dynamic"), "dialect/test_cases_as_programs.py"),
    **dict.fromkeys(("reshard_removed_feature", "halo_reshard"), "dialect/test_cases_as_programs.py"),
    "propagation": "dialect/test_propagation_cases.py",
    **dict.fromkeys(("partition_op", "partition_error"), "dialect/test_partition_cases.py"),
    "shard_shape": "dialect/test_cases_as_programs.py",
    # No text: facts about blocks, groups and messages, which tests of these layers hold.
    **dict.fromkeys(("shard_shape_conflict", "group", "comm_group"), "grid/test_dialect_geometry.py"),
    "update_halo_plan": "halo/exchange/test_halo_exchange.py",
}


def is_between_grids(case):
    """Whether a resharding leads to another grid, or to devices in another order."""
    return "to_grid" in case or "to_device_ids" in case or not case["grid"]


def refined(case):
    """A resharding of parts of grid axes, on a grid that has an axis for each part."""
    cuts = [{1, n} for n in case["grid"]]
    for part in [each for side in (case["from"], case["to"]) for axes in side for each in axes]:
        if isinstance(part, dict):
            cuts[part["axis"]] |= {part["pre"], part["pre"] * part["size"]}
    starts, sizes, places = [], [], []  # of the new axes: how much of the old one is before it, its size, its old axis
    for axis, ends in enumerate(map(sorted, cuts)):
        for before, after in zip(ends, ends[1:]):
            starts.append(before)
            sizes.append(after // before)
            places.append(axis)

    def new(part):
        axis, pre, size = (part["axis"], part["pre"], part["size"]) if isinstance(part, dict) else (part, 1, None)
        return [
            i
            for i, (start, place) in enumerate(zip(starts, places))
            if place == axis and pre <= start and (size is None or start < pre * size)
        ]

    lists = {side: [[i for part in axes for i in new(part)] for axes in case[side]] for side in ("from", "to")}
    return {**case, **lists, "grid": sizes}


def of_kind(*kinds):
    """The cases of some kinds."""
    return [case for case in CASES if case["kind"] in kinds]
