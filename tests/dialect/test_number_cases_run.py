"""The dialect's own cases that are numbers, executed; and the model of the compiler's resharding.

Deviation from the compiler, on purpose: shards that differ in extent follow the engine's block rule (`shard_shape`).
"""

import json
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xdsl")

import spmd_grid as sg
from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.devices import EngineDevices, pure_grids
from spmd_grid.dialect.execute.reference import ReferenceDevice, ReferenceWorld
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.dialect.execute.values import Undefined
from spmd_grid.dialect.partition.upstream import upstream_of

CASES = json.loads((Path(__file__).parent / "dialect_cases.json").read_text())["cases"]


def of_kind(*kinds):
    return [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] in kinds]


def tensor(shape):
    return f"tensor<{''.join(f'{n}x' for n in shape)}i32>"


def grid_text(grid):
    return f"shard.grid @g(shape = {'x'.join(map(str, grid))})\n"


def collective_text(case, before, after):
    words = ["reduction", "gather_axis", "slice_axis", "split_axis", "concat_axis", "scatter_dim", "root", "shift_axis"]
    given = [f"{word} = {case[word]}" for word in [*words, "offset"] if word in case] + ["rotate"] * bool(
        case.get("rotate")
    )
    types = f"{tensor(before)}", f"{tensor(after)}"
    is_rooted = case["op"] in ("broadcast", "gather", "reduce", "scatter")
    shown = f"({types[0]}) -> {types[1]}" if is_rooted else " -> ".join(types)
    return (
        f"{grid_text(case['grid'])}func.func @main(%x: {types[0]}) -> {types[1]} {{\n"
        f"  %1 = shard.{case['op']} %x on @g grid_axes = {case['grid_axes']} {' '.join(given)} : {shown}\n"
        f"  return %1 : {types[1]}\n}}\n"
    )


def by_device(case, name):
    return [case[name][",".join(map(str, at))] for at in np.ndindex(*case["grid"])]


def run_on_each(text, grid, arrays):
    module = parse(text, "case.mlir")
    devices = EngineDevices(pure_grids(module, "main", int(np.prod(grid))))
    (found,) = FunctionRunner(module, devices).call("main", [np.array(arrays[devices.grid("g").rank], "i4")])
    return found


@pytest.mark.parametrize("case", of_kind("op_data"))
def test_collectives(spmd, case):
    given, due = by_device(case, "input"), by_device(case, "output")
    after = np.shape(next(x for x in due if x is not None))
    text = collective_text(case, np.shape(given[0]), after)
    for found, expected in zip(spmd(len(given), run_on_each, text, case["grid"], given), due, strict=True):
        if expected is None:
            assert isinstance(found, Undefined)
        else:
            assert found.tolist() == expected


def on_one(text, linear):
    """The results of a function without communication on one device of a grid of any size."""
    module = parse(text, "case.mlir")
    grids = pure_grids(module, "main", int(np.prod(module.body.block.first_op.sizes)))
    device = ReferenceDevice(ReferenceWorld(), grids, linear)
    return [int(n) if np.ndim(n) == 0 else n.tolist() for n in FunctionRunner(module, device).call("main", [])]


@pytest.mark.parametrize("case", of_kind("op_data_by_rule"))
def test_slices_over_axes_in_another_order(case):
    for at, expected in case["sample"].items():
        text = (
            f"{grid_text(case['grid'])}func.func @main() -> tensor<1xi32> {{\n"
            "  %x = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>\n"
            f"  %1 = shard.all_slice %x on @g grid_axes = {case['grid_axes']} slice_axis = 0"
            " : tensor<6xi32> -> tensor<1xi32>\n  return %1 : tensor<1xi32>\n}\n"
        )
        module = parse(text, "case.mlir")
        coords = tuple(map(int, at.split(",")))

        def body(module=module, grid=tuple(case["grid"]), coords=coords):
            devices = EngineDevices(pure_grids(module, "main", int(np.prod(grid))))
            found = FunctionRunner(module, devices).call("main", [])
            return found[0].tolist() if devices.coords("g") == coords else None

        assert [x for x in sg.run_spmd(body, ranks=int(np.prod(case["grid"]))) if x is not None] == [expected]


@pytest.mark.parametrize("case", of_kind("index"))
def test_indices(case):
    grid = case["grid"]
    linear = case.get("linear", 0)
    axes = case.get("axes", list(range(len(grid))))
    kinds = ", ".join(["index"] * (len(axes) + 1))
    names = ", ".join(f"%c{i}" for i in range(len(axes)))
    text = (
        f"{grid_text(grid)}func.func @main() -> ({kinds}) {{\n  %n = shard.process_linear_index on @g : index\n"
        f"  {names} = shard.process_multi_index on @g axes = {axes} : {kinds[:-7]}\n"
        f"  return %n, {names} : {kinds}\n}}\n"
    )
    assert on_one(text, linear) == [linear, *case.get("result", case.get("multi_index"))]


@pytest.mark.parametrize("case", of_kind("neighbors"))
def test_neighbors(case):
    made = [f"  %c{i} = arith.constant {n} : index\n" for i, n in enumerate(case["multi_index"])]
    names = ", ".join(f"%c{i}" for i in range(len(made)))
    text = (
        f"{grid_text(case['grid'])}func.func @main() -> (index, index) {{\n{''.join(made)}"
        f"  %down, %up = shard.neighbors_linear_indices on @g[{names}] split_axes = {case['split_axes']}"
        " : index, index\n"
        "  return %down, %up : index, index\n}\n"
    )
    assert on_one(text, 0) == [case["down"], case["up"]]


@pytest.mark.parametrize("case", of_kind("local_shapes", "local_shapes_by_device"))
def test_sizes_of_shards(case):
    grid, dims = case["grid"], case["shape"]
    devices = list(np.ndindex(*grid))
    due = case["locals"] if isinstance(case["locals"], list) else by_device(case, "locals")
    for at, expected in zip(devices, due, strict=True):
        kinds = ", ".join(["index"] * len(dims))
        names = ", ".join(f"%n{i}" for i in range(len(dims)))
        text = (
            f"{grid_text(grid)}func.func @main() -> ({kinds}) {{\n"
            f"  %s = shard.sharding @g split_axes = {case['split_axes']} sharded_dims_offsets ="
            f" {case['sharded_dims_offsets']} : !shard.sharding\n"
            f"  {names} = shard.shard_shape dims = {dims} sharding = %s device = {list(at)} : {kinds}\n"
            f"  return {names} : {kinds}\n}}\n"
        )
        assert on_one(text, 0) == expected


@pytest.mark.parametrize("form", ["tensor", "memref"])
@pytest.mark.parametrize("case", of_kind("update_halo_data"))
def test_halos(spmd, case, form):
    whole = np.array(case["global_tensor"], "i4")
    grid, halos = case["grid"], case["halo_sizes"]
    sharding = sg.Sharding(sg.Grid(grid), case["split_axes"])
    given = [
        np.pad(whole[sharding.shard_slices(whole.shape, at)], list(zip(halos[::2], halos[1::2])))
        for at in np.ndindex(*grid)
    ]
    kind = tensor(given[0].shape).replace("tensor", form)
    text = (
        f"{grid_text(grid)}func.func @main(%x: {kind}) -> {kind} {{\n"
        f"  %y = shard.update_halo %x on @g split_axes = {case['split_axes']} halo_sizes = {halos} : {kind}\n"
        f"  return %y : {kind}\n}}\n"
    )
    found = spmd(len(given), run_on_each, text, grid, given)
    assert [x.tolist() for x in found] == by_device(case, "result")


# -- what the compiler would have done -----------------------------------------------------------------------------


def model(case):
    grid = sg.Grid(case["grid"])
    rank = len(case["shape"])
    source, target = ([*case[name], *[[]] * (rank - len(case[name]))] for name in ("from", "to"))
    return upstream_of(sg.Sharding(grid, source), sg.Sharding(grid, target), tuple(case["shape"]))


@pytest.mark.parametrize("case", of_kind("reshard_unsupported_upstream"))
def test_pairs_that_the_compiler_refuses(case):
    assert "no pattern leads" in model(case).refusal


@pytest.mark.parametrize(
    "case", [each for each in of_kind("reshard_wrong_plan") if "move" in each.id or "two" in each.id]
)
def test_pairs_that_the_compiler_gets_wrong(case):
    found = model(case)
    assert not found.refusal and not found.is_right
    assert [(step.name, list(step.axes)) for step in found.steps] == [(x["op"], x["grid_axes"]) for x in case["plan"]]


def all_lists(n_axes, rank):
    """Every way to split dimensions by axes."""
    found = set()
    for count in range(n_axes + 1):
        for axes in permutations(range(n_axes), count):
            for dims in product(range(rank), repeat=count):
                found.add(tuple(tuple(a for a, d in zip(axes, dims) if d == dim) for dim in range(rank)))
    return sorted(found)


# Counted by a simulation of the pass's patterns that shares no code with the model.
@pytest.mark.parametrize(
    ("grid", "rank", "right", "refused", "wrong"), [((2,), 2, 5, 0, 1), ((2, 3), 1, 10, 10, 0), ((2, 3), 2, 46, 50, 14)]
)
def test_pairs_are_counted(grid, rank, right, refused, wrong):
    shardings = [sg.Sharding(sg.Grid(grid), lists) for lists in all_lists(len(grid), rank)]
    answers = [upstream_of(a, b, (36,) * rank) for a in shardings for b in shardings if a is not b]
    found = [sum(x.is_right for x in answers), sum(bool(x.refusal) for x in answers)]
    assert [*found, len(answers) - sum(found)] == [right, refused, wrong]
