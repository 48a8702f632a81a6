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


def left_out(case):
    """The reason for which a resharding is not run as a program of the dialect; "" where it is."""
    if case.get("sub_axes"):
        return "parts of grid axes: the dialect's shardings have none (the planner's tests refine the grid instead)"
    if "to_grid" in case or not case["grid"]:
        return "two grids: shardings of a function that is partitioned are on one (the planner's tests have two)"
    if "to_device_ids" in case:
        return "devices in another order: a grid of the dialect has none (the planner's tests have it)"
    return ""


def of_kind(*kinds):
    """The cases of some kinds."""
    return [case for case in CASES if case["kind"] in kinds]
