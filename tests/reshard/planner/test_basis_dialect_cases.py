"""Chains of named steps for the dialect's own cases, played on its numbers."""

import json
from pathlib import Path

import pytest
from support.reshard.chains import chain_of, layouts
from support.reshard.step_oracle import all_gather, all_slice, all_to_all, check_locals, local_arrays, play

from spmd_grid.reshard.planner.steps import SWAP, Step

HERE = Path(__file__).parent
CASES = {case["name"]: case for case in json.loads((HERE / "dialect_reshard_cases.json").read_text())["cases"]}
TRAPS = {case["name"]: case for case in json.loads((HERE.parent / "wrong_plan_cases.json").read_text())["cases"]}
BETTER = {  # what we do in place of gathering everything and slicing it again
    "fallback_cross_dims_3d": ["all_to_all", "all_to_all", "all_to_all"],
    "fallback_reverse_all": ["all_to_all", "swap"],
}


def layouts_of_case(case):
    partial = case.get("from_partial", {"axes": [], "kind": "sum"})
    options = {"source_partial_axes": partial["axes"], "source_partial_kind": partial["kind"]}
    return layouts(case["grid"], tuple(case["shape"]), case["from"], case["to"], **options)


def follow(plan, grid_shape, shape, xs):
    """The local arrays after a case's own plan, which has operations and no layouts."""
    for op in plan:
        axes = op.get("grid_axes")
        if op["op"] == "all_gather":
            xs = all_gather(xs, grid_shape, axes, op["gather_axis"])
        elif op["op"] == "all_slice":
            xs = all_slice(xs, grid_shape, axes, op["slice_axis"])
        elif op["op"] == "all_to_all":
            xs = all_to_all(xs, grid_shape, axes, op["split_axis"], op["concat_axis"])
        else:
            assert op["op"] == "permute"
            xs = play(Step(SWAP, *layouts(grid_shape, shape, op["from"], op["to"]), range(len(grid_shape))), xs)
        assert all(x.shape == tuple(op["out"]) for x in xs.values())
    return xs


@pytest.mark.parametrize("name", CASES)
def test_dialect_case(name):
    case = CASES[name]
    source, target = layouts_of_case(case)
    words, _ = chain_of(source, target)
    if "plan" not in case:
        return
    found, theirs = [word.split()[0] for word in words], [op["op"].replace("permute", "swap") for op in case["plan"]]
    assert sorted(found) == sorted(BETTER.get(name, theirs))
    if not source.sharding.partial_axes:
        value, xs = local_arrays(source)
        check_locals(target, follow(case["plan"], case["grid"], tuple(case["shape"]), xs), value, [name])


@pytest.mark.parametrize("name", [name for name in TRAPS if TRAPS[name]["kind"] == "reshard_wrong_plan"])
def test_traps(name):
    case = TRAPS[name]
    source, target = layouts_of_case(case)
    chain_of(source, target)
    value, xs = local_arrays(source)
    wrong = follow(case["plan"], case["grid"], tuple(case["shape"]), xs)
    with pytest.raises(AssertionError):
        check_locals(target, wrong, value, [name])


def test_regression_of_a_peer():
    assert chain_of(*layouts((2, 2), (5, 3), [[0, 1]], [[]]))[0] == ["all_gather [0, 1] 0"]
