"""The dialect's own cases of resharding, as programs that are read, run and compared.

Deviations from the compiler, all on purpose:

* what it refuses runs: reshardings without a pattern, blocks that differ in extent;
* shards that differ in extent follow the engine's rule, ceil blocks (`shard_shape`).
"""

from collections import defaultdict
from math import prod
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.case_texts import resharding_text, sizes_text, tensor
from support.dialect.cases import CASES, RUN_BY, is_between_grids, of_kind, refined

import spmd_grid as sg
from spmd_grid import dialect
from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.devices import EngineDevices, pure_grids
from spmd_grid.dialect.execute.layouts import block_of, function_types, layout_of_type, whole_of
from spmd_grid.dialect.execute.reading import attribute
from spmd_grid.dialect.execute.reference import ReferenceDevice, ReferenceWorld, run_reference
from spmd_grid.dialect.execute.runner import FunctionRunner, function_of
from spmd_grid.dialect.partition.annotated import program_of

MOST_RANKS = 12  # of the engine; larger grids are all devices in one process, which run the partitioned text


def test_every_case_is_run_or_listed():
    folder = Path(__file__).parents[1]
    kinds = defaultdict(list)
    for case in CASES:
        kinds[case["kind"]].append(case["name"])
    assert set(kinds) == set(RUN_BY)
    for kind, file in RUN_BY.items():
        text = (folder / file).read_text()
        beside = [each.read_text() for each in (folder / file).parent.glob("dialect_*.json")]
        above = [each.read_text() for each in (folder / file).parent.parent.glob("dialect_*.json")]
        assert any(f'"{kind}"' in each for each in [text, *beside, *above]), kind
    assert len(CASES) == 239


def wanted_sharding(case, grid):
    lists, rank = case.get("to", case.get("split_axes")), len(case["shape"])
    return sg.Sharding(grid, lists[:rank], halo_sizes=case.get("halo_to"))


def reshards():
    """The cases by grid, so that one run has all of a grid."""
    found = defaultdict(list)
    kinds = "reshard", "reshard_wrong_plan", "reshard_unsupported_upstream", "reshard_removed_feature"
    for case in [*of_kind(*kinds, "reshard_shardy"), *of_kind("halo_reshard")]:
        if not is_between_grids(case):
            case = refined(case) if case.get("sub_axes") else case
            small = case["name"] == "halo_add_2d"  # its shape is 1200x1200
            found[tuple(case["grid"])].append({**case, "shape": [24, 24]} if small else case)
    return found


def part_of(module, name, grids, shape):
    return sg.partition(program_of(module, name, grids, [tuple(shape)], {}), grids["g"])


def whole_array(case):
    return np.arange(prod(case["shape"]), dtype="i4").reshape(case["shape"])


def run_all(text, cases):
    """The names of the cases whose result is not the argument in the target's sharding."""
    module, wrong = parse(text, "cases.mlir"), []
    for case in cases:
        grids = pure_grids(module, case["name"], prod(case["grid"]))
        part, x = part_of(module, case["name"], grids, case["shape"]), whole_array(case)
        grid = sg.init_grid(grids["g"].shape)
        found = part.run(grid, sg.from_global(x, part.in_shardings[0], grid))
        if found.sharding != wanted_sharding(case, grid) or not np.array_equal(found.to_global(), x):
            wrong.append(case["name"])
    return wrong


@pytest.mark.parametrize("grid", reshards(), ids=sizes_text)
def test_reshardings(spmd, grid):
    """Data arrive, in the target's sharding; also where the compiler refuses, or gives wrong data."""
    cases = reshards()[grid]
    text = f"shard.grid @g(shape = {sizes_text(grid)})\n" + "".join(map(resharding_text, cases))
    if prod(grid) <= MOST_RANKS:
        assert spmd(prod(grid), run_all, text, cases) == [[]] * prod(grid)
        return
    module = parse(text, "cases.mlir")
    grids = pure_grids(module, cases[0]["name"], prod(grid))
    for case in cases:
        part, x = part_of(module, case["name"], grids, case["shape"]), whole_array(case)
        stage = parse(part.text("partitioned"), "stage.mlir")
        source, target = (
            layout_of_type(next(iter(attribute(function_of(stage, None), name))), grids["g"])
            for name in ("sources", "targets")
        )
        blocks = [[block_of(x, source, n)] for n in range(prod(grid))]
        found = run_reference(stage, None, {"grid0": grids["g"]}, blocks)
        assert target.sharding == wanted_sharding(case, grids["g"])
        np.testing.assert_array_equal(whole_of([results[0] for results in found], target), x)


BETWEEN = [case for case in of_kind("reshard_shardy") if is_between_grids(case)]


def run_between(case):
    """Cells that differ on this process from those of the target, and how many it has."""
    grids = [case["grid"] or [1], case.get("to_grid", case["grid"] or [1])]
    ranks = f", ranks = {case['to_device_ids']}" if "to_device_ids" in case else ""
    before, after = (
        tensor(case["shape"], f'i32, #shard.shard<{case[side]}, grid = "{name}"{more}>')
        for side, name, more in (("from", "g", ""), ("to", "h", ranks))
    )
    text = (
        f"shard.grid @g(shape = {sizes_text(grids[0])})\nshard.grid @h(shape = {sizes_text(grids[1])})\n"
        f"func.func @main(%x: {before}) -> {after} attributes {{grid = @g}} {{\n"
        f'  %0 = "spmd_grid.exchange"(%x) : ({before}) -> {after}\n  return %0 : {after}\n}}\n'
    )
    module, x = parse(text, "case.mlir"), whole_array(case)
    assert dialect.to_text(parse(dialect.to_text(module))) == dialect.to_text(module)
    pure = pure_grids(module, "main", prod(grids[0]))
    devices = EngineDevices(pure)
    function = function_of(module, "main")
    source, target = (layout_of_type(side[0], pure["g"], pure.__getitem__) for side in function_types(function))
    (found,) = FunctionRunner(module, devices).call("main", [block_of(x, source, devices.rank)])
    due = block_of(x, target, devices.rank)
    assert found.shape == due.shape
    return int((found != due).sum()), due.size


@pytest.mark.parametrize("case", BETWEEN, ids=lambda case: case["name"])
def test_reshardings_between_grids(spmd, case):
    """Grids of another shape, and of devices in another order: types name their grids, and the order of devices."""
    n = prod(case["grid"])
    wrong, sizes = zip(*spmd(n, run_between, case))
    assert wrong == (0,) * n and sum(sizes) >= prod(case["shape"])


@pytest.mark.parametrize("case", of_kind("reshard_dynamic"), ids=lambda case: case["name"])
@pytest.mark.parametrize("n", [2, 3])
def test_reshardings_of_open_grids_and_extents(spmd, case, n):
    """Sizes that the compiler leaves open are known at run time, and need not divide."""
    text = f"shard.grid @g(shape = {sizes_text(case['grid'])})\n" + resharding_text(case)
    if case["grid"] == [2] and n == 3:
        n = 2
    known = {**case, "shape": [11 if extent is None else extent for extent in case["shape"]], "grid": [n]}
    assert spmd(n, run_all, text, [known]) == [[]] * n


@pytest.mark.parametrize("case", of_kind("shard_shape"), ids=lambda case: case["name"])
def test_sizes_of_shards_at_run_time(case):
    """The compiler's run time gives cells that are left over to the last shards, we fill the first ones."""
    dims, offsets = case["dims"], case.get("sharded_dims_offsets")
    shown = f" sharded_dims_offsets = {[n for each in offsets for n in each]}" if offsets else ""
    names, kinds = ", ".join(f"%n{i}" for i in range(len(dims))), ", ".join(["index"] * len(dims))
    text = (
        f"shard.grid @g(shape = {sizes_text(case['grid'])})\nfunc.func @main() -> ({kinds}) {{\n"
        f"  %s = shard.sharding @g split_axes = {case['split_axes']}{shown} : !shard.sharding\n"
        f"  {names} = shard.shard_shape dims = {dims} sharding = %s device = {case['device']} : {kinds}\n"
        f"  return {names} : {kinds}\n}}\n"
    )
    module = parse(text, "case.mlir")
    found = run_on_one(module, case["grid"])
    if offsets:
        assert found == case["result"]
    else:
        sharding = sg.Sharding(sg.Grid(case["grid"]), case["split_axes"])
        assert found == list(sharding.shard_shape(tuple(dims), tuple(case["device"])))
        assert all(sum(sizes) == n for sizes, n in zip(case["all_sizes"], dims))


def run_on_one(module, grid):
    grids = pure_grids(module, "main", prod(grid))
    return [int(n) for n in FunctionRunner(module, ReferenceDevice(ReferenceWorld(), grids, 0)).call("main", [])]
