"""The dialect's own cases of resharding, propagation and partition, as programs that are read, run and compared.

Deviations from the compiler, all on purpose:

* what it refuses runs: reshardings without a pattern, blocks that differ in extent, arguments and results without
  annotations (`partition_error`), whose shardings propagation finds;
* an operation that nobody knows is refused when the text is read, also where nothing is cut;
* an annotation of a result for its users alone leaves the result as it is, and reshards what is returned;
* shards that differ in extent follow the engine's rule, ceil blocks (`shard_shape`).
"""

from collections import defaultdict
from math import prod
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.case_texts import sizes_text, tensor
from support.dialect.cases import CASES, RUN_BY, left_out, of_kind

import spmd_grid as sg
from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.devices import pure_grids
from spmd_grid.dialect.execute.layouts import block_of, layout_of_type, whole_of
from spmd_grid.dialect.execute.machine import FunctionRunner, function_of
from spmd_grid.dialect.execute.reading import attribute
from spmd_grid.dialect.execute.reference import ReferenceDevice, ReferenceWorld, run_reference
from spmd_grid.dialect.partition.annotated import program_of
from spmd_grid.errors import DialectError

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
    assert sum(bool(left_out(case)) for case in of_kind("reshard_shardy")) == 20


def sharding_text(name, lists, halos=None, partial=None):
    shown = f" partial = {partial['kind']} {partial['axes']}" if partial else ""
    shown += f" halo_sizes = {halos}" if halos else ""
    return f"  %{name} = shard.sharding @g split_axes = {lists} {shown} : !shard.sharding\n"


def resharding_text(case):
    """A function that reshards its argument."""
    kind = tensor(case["shape"], "i32")
    source, target = case.get("from", case.get("split_axes")), case.get("to", case.get("split_axes"))
    return (
        f"func.func @{case['name']}(%x: {kind}) -> {kind} {{\n"
        f"{sharding_text('s', source, partial=case.get('from_partial'))}"
        f"{sharding_text('t', target, halos=case.get('halo_to'))}"
        f"  %0 = shard.shard %x to %s : {kind}\n"
        f"  %1 = shard.shard %0 to %t annotate_for_users : {kind}\n  return %1 : {kind}\n}}\n"
    )


def wanted_sharding(case, grid):
    lists, rank = case.get("to", case.get("split_axes")), len(case["shape"])
    return sg.Sharding(grid, lists[:rank], halo_sizes=case.get("halo_to"))


def reshards():
    """The cases by grid, so that one run has all of a grid."""
    found = defaultdict(list)
    kinds = "reshard", "reshard_wrong_plan", "reshard_unsupported_upstream", "reshard_removed_feature"
    for case in [*of_kind(*kinds, "reshard_shardy"), *of_kind("halo_reshard")]:
        if not left_out(case):
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


# -- operations ----------------------------------------------------------------------------------------------------


def function_text(grid, arguments, lines, result, name="main"):
    """A function; ``lines`` may use ``{NAME}`` for types of the arguments."""
    parameters = ", ".join(f"%{each}: {kind}" for each, kind in arguments.items())
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f"shard.grid @g(shape = {sizes_text(grid)})\nfunc.func @{name}({parameters}) -> {result[1]} {{\n{body}"
        f"  return {result[0]} : {result[1]}\n}}\n"
    )


def annotated(value, source, lists, kind, for_users=False):
    """The lines that annotate ``source``, and name it ``value``."""
    users = " annotate_for_users" if for_users else ""
    return [
        f"%s_{value} = shard.sharding @g split_axes = {lists} : !shard.sharding",
        f"%{value} = shard.shard %{source} to %s_{value}{users} : {kind}",
    ]


def planned(text, grid, shapes):
    module = parse(text, "case.mlir")
    grids = pure_grids(module, "main", prod(grid))
    return sg.partition(program_of(module, "main", grids, [tuple(shape) for shape in shapes], {}), grids["g"])


def lists_of(sharding):
    """The lists of a sharding without empty ones at the end."""
    lists = [list(axes) for axes in sharding.split_axes]
    while lists and not lists[-1]:
        lists.pop()
    return lists or [[]]


PROPAGATION = {case["name"]: case for case in of_kind("propagation")}
X = "tensor<8x16xf32>"


@pytest.mark.parametrize("where", ["argument", "result", "operand"])
def test_an_annotation_of_an_elementwise_operation_holds_everywhere(where):
    case = PROPAGATION["elementwise_any_annotation"]
    lines = {
        "argument": [*annotated("a", "x", case["given"], X), f"%r = tosa.sigmoid %a : ({X}) -> {X}"],
        "result": [f"%y = tosa.sigmoid %x : ({X}) -> {X}", *annotated("r", "y", case["given"], X)],
        "operand": [*annotated("a", "x", case["given"], X, True), f"%r = tosa.sigmoid %a : ({X}) -> {X}"],
    }[where]
    part = planned(function_text(case["grid"], {"x": X}, lines, ("%r", X)), case["grid"], [(8, 16)])
    found = {value.name: lists_of(part.sharding_of(value)) for value in part.program.values}
    assert set(map(str, found.values())) == {str(case["everywhere"])}, found


@pytest.mark.parametrize("name", ["matmul_result_01", "matmul_result_mn", "matmul_lhs_mk", "matmul_both_k"])
def test_annotations_of_products(name):
    case = PROPAGATION[name]
    kinds = {each: tensor(case[each], "f32") for each in "AB"}
    kinds["C"] = tensor([case["A"][0], case["A"][1], case["B"][2]], "f32")
    lines = [line for each in "AB" if each in case["given"]
             for line in annotated(f"{each}_in", each, case["given"][each], kinds[each])]  # fmt: skip
    names = [f"%{each}_in" if each in case["given"] else f"%{each}" for each in "AB"]
    lines.append(f"%C = tosa.matmul {names[0]}, {names[1]} : ({kinds['A']}, {kinds['B']}) -> {kinds['C']}")
    result = "%C"
    if "C" in case["given"]:
        lines += annotated("r", "C", case["given"]["C"], kinds["C"])
        result = "%r"
    text = function_text(case["grid"], {"A": kinds["A"], "B": kinds["B"]}, lines, (result, kinds["C"]))
    part = planned(text, case["grid"], [case["A"], case["B"]])
    found = {"A": part.sharding_of(0), "B": part.sharding_of(1), "C": part.out_shardings[0]}
    assert {each: lists_of(found[each]) for each in case["inferred"]} == case["inferred"]


def test_a_chain_whose_end_is_replicated_is_replicated():
    case = PROPAGATION["chain_final_replicated"]
    lines = [f"%a = tosa.sigmoid %x : ({X}) -> {X}", f"%b = tosa.tanh %a : ({X}) -> {X}"]
    lines += annotated("r", "b", case["given"]["last"], X)
    part = planned(function_text(case["grid"], {"x": X}, lines, ("%r", X)), case["grid"], [(8, 16)])
    assert {str(lists_of(part.sharding_of(value))) for value in part.program.values} == {str(case["everywhere"])}


def test_the_compilers_perceptron():
    """Its first product is summed over all axes; the second is cut along its columns."""
    case = PROPAGATION["mlp_1d"]
    kinds = {"x": "tensor<2x24x48xf32>", "A": "tensor<2x48x96xf32>", "B": "tensor<2x96x48xf32>"}
    given, middle = case["given"], "tensor<2x24x96xf32>"
    lines = [*annotated("a", "x", given["A"], kinds["x"]), *annotated("w", "B", given["B"], kinds["B"])]
    lines += [f"%m = tosa.matmul %a, %A : ({kinds['x']}, {kinds['A']}) -> {middle}"]
    lines += [*annotated("whole", "m", case["inferred"]["mm1_C"], middle)]
    lines += [f"%s = tosa.sigmoid %whole : ({middle}) -> {middle}"]
    lines += [f"%r = tosa.matmul %s, %w : ({middle}, {kinds['B']}) -> {kinds['x']}"]
    shapes = (2, 24, 48), (2, 48, 96), (2, 96, 48)
    part = planned(function_text(case["grid"], kinds, lines, ("%r", kinds["x"])), case["grid"], shapes)
    inferred = case["inferred"]
    assert lists_of(part.sharding_of(0)) == inferred["mm1_A"]
    assert lists_of(part.sharding_of(1)) == inferred["mm1_B"]
    assert lists_of(part.sharding_of(2)) == inferred["mm2_B"]
    assert lists_of(part.out_shardings[0]) == inferred["mm2_C"]
    assert [each.name for each in part.collectives()] == ["all_reduce"]


def test_programs_that_cannot_be_propagated():
    """More than one block; a batch of 1 beside one of 2, which no product has."""
    two = PROPAGATION["two_blocks"]
    lines = [*annotated("a", "x", [[0]], X), "cf.br ^bb1", "^bb1:", f"%r = tosa.abs %a : ({X}) -> {X}"]
    with pytest.raises(DialectError, match=r"case.mlir:2:1: .*its body has 2 blocks; it must have one"):
        planned(function_text(two["grid"], {"x": X}, lines, ("%r", X)), two["grid"], [(8, 16)])
    one = PROPAGATION["prop_broadcast_dim_cannot_shard"]
    a, b, c = tensor(one["A"], "f32"), tensor(one["B"], "f32"), tensor([2, 4, 16], "f32")
    lines = [
        *annotated("a", "A", one["given"]["A_for_op"], a, True),
        f"%r = tosa.matmul %a, %B : ({a}, {b}) -> {c}",
    ]
    with pytest.raises(DialectError, match=r"case.mlir:5:8: tosa.matmul: operand 1 must have the shape 1x8x\?"):
        planned(function_text(one["grid"], {"A": a, "B": b}, lines, ("%r", c)), one["grid"], [one["A"], one["B"]])


PARTITION = {case["name"]: case for case in of_kind("partition_op")}


def one_dimensional(case, lines, result):
    kind = tensor(case["shape"], "f32")
    text = function_text(case["grid"], {"x": kind}, lines(kind), result(kind))
    return planned(text, case["grid"], [case["shape"]])


def run_part(part, arrays):
    grid = sg.init_grid(part.grid.shape)
    found = part.run(grid, *[sg.from_global(x, s, grid) for x, s in zip(arrays, part.in_shardings)])
    return found.to_global()


def check_run(spmd, part, function, dtype="f4"):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x.shape).astype(dtype) for x in part.program.arguments]
    for found in spmd(part.grid.size, run_part, part, arrays):
        np.testing.assert_allclose(found, function(*arrays), rtol=2e-4, atol=2e-4)


def test_an_elementwise_operation_is_local(spmd):
    case = PARTITION["elementwise_local"]

    def lines(kind):
        return [*annotated("a", "x", case["operand"], kind), f"%r = tosa.abs %a : ({kind}) -> {kind}"]

    part = one_dimensional(case, lines, lambda kind: ("%r", kind))
    assert tensor([*case["local"]], "f32") in part.text("partitioned") and part.collectives() == case["comm"]
    check_run(spmd, part, np.abs)


def test_an_elementwise_operation_between_replicated_arrays(spmd):
    """The compiler slices and gathers around it; we do, too, as the annotations require it."""
    case = PARTITION["elementwise_with_reshard"]

    def lines(kind):
        return [
            *annotated("w", "x", case["annotated_arg"], kind),
            *annotated("a", "w", case["operand"], kind, True),
            f"%y = tosa.abs %a : ({kind}) -> {kind}",
            *annotated("c", "y", case["result"], kind),
            *annotated("r", "c", case["final"], kind, True),
        ]

    part = one_dimensional(case, lines, lambda kind: ("%r", kind))
    text = part.text("partitioned")
    assert text.index("shard.all_slice %") < text.index("absolute") < text.index("shard.all_gather %")
    assert [each.name for each in part.collectives()] == ["all_gather"]
    check_run(spmd, part, np.abs)


def test_a_sum_over_a_whole_dimension_is_local(spmd):
    case = PARTITION["reduce_unsharded_dim"]
    out = tensor([6, 1], "f32")

    def lines(kind):
        return [
            *annotated("a", "x", case["operand"], kind),
            f"%r = tosa.reduce_sum %a {{axis = 1 : i32}} : ({kind}) -> {out}",
        ]

    part = one_dimensional(case, lines, lambda kind: ("%r", out))
    text = part.text("partitioned")
    assert tensor(case["local_in"], "f32") in text and tensor([*case["local_out"], 1], "f32") in text
    assert part.collectives() == case["comm"] and lists_of(part.out_shardings[0]) == case["result"]
    check_run(spmd, part, lambda x: x.sum(axis=1, keepdims=True))


def matmul_line(name, a, b, shape):
    (left, kind_a), (right, kind_b), out = a, b, tensor(shape, "f32")
    return [
        f"%{name}_zero = arith.constant dense<0.0> : {out}",
        f"%{name} = linalg.matmul ins({left}, {right} : {kind_a}, {kind_b}) outs(%{name}_zero : {out}) -> {out}",
    ]


def test_a_product_whose_columns_are_cut(spmd):
    case = PARTITION["matmul_cols_resharded"]
    a, b, c = tensor(case["A"], "f32"), tensor(case["B"], "f32"), [4, 8]
    lines = [
        *annotated("held", "b", case["B_held"], b),
        *annotated("cut", "held", case["shB"], b, True),
        *matmul_line("c", ("%a", a), ("%cut", b), c),
        *annotated("r", "c", case["C_final"], tensor(c, "f32"), True),
    ]
    text = function_text(case["grid"], {"a": a, "b": b}, lines, ("%r", tensor(c, "f32")))
    part = planned(text, case["grid"], [case["A"], case["B"]])
    stage = part.text("partitioned")
    assert "slice_axis = 1 : tensor<6x8xf32> -> tensor<6x2xf32>" in stage
    assert f"gather_axis = 1 : {tensor(case['C_local'], 'f32')} -> tensor<4x8xf32>" in stage
    check_run(spmd, part, np.matmul)


def test_a_weight_stationary_perceptron(spmd):
    case = PARTITION["mlp_weight_stationary"]
    small = {name: [n // 16 for n in case[name]] for name in ("X", "W1", "W2")}
    kinds = {name: tensor(shape, "f32") for name, shape in small.items()}
    hidden, out = [small["X"][0], small["W1"][1]], [small["X"][0], small["W2"][1]]
    lines = [line for name in small for line in annotated(f"{name}s", name, case[f"sh{name}"], kinds[name])]
    lines += matmul_line("h", ("%Xs", kinds["X"]), ("%W1s", kinds["W1"]), hidden)
    kind = tensor(hidden, "f32")
    lines.append(f"%g = tosa.sigmoid %h : ({kind}) -> {kind}")
    lines += matmul_line("y", ("%g", kind), ("%W2s", kinds["W2"]), out)
    lines += annotated("r", "y", [[]], tensor(out, "f32"))
    part = planned(function_text(case["grid"], kinds, lines, ("%r", tensor(out, "f32"))), case["grid"], small.values())
    text = part.text("partitioned")
    for name, shape in case["local"].items():
        assert tensor([n // 16 for n in shape], "f32") in text, name
    assert [each.name for each in part.collectives()] == [words.split()[0] for words in case["comm"]]
    check_run(spmd, part, lambda x, w1, w2: 1 / (1 + np.exp(-(x @ w1))) @ w2)


def test_a_constant_of_one_number_is_cut():
    case = PARTITION["constant_splat"]
    kind = tensor(case["shape"], "f32")
    lines = [f"%c = arith.constant dense<2.0> : {kind}", *annotated("s", "c", case["result"], kind)]
    lines += [*annotated("a", "x", case["result"], kind), f"%r = arith.addf %s, %a : {kind}"]
    part = planned(function_text(case["grid"], {"x": kind}, lines, ("%r", kind)), case["grid"], [case["shape"]])
    assert tensor(case["local"], "f32") in part.text("partitioned") and part.collectives() == case["comm"]
    assert "shard.all_gather" not in part.text("optimised")


def test_an_operation_that_nobody_knows_is_refused():
    case = PARTITION["unregistered_op_needs_replication"]
    lines = [*annotated("a", "x", [[]], X), f'%r = "nobody.knows"(%a) : ({X}) -> {X}']
    with pytest.raises(DialectError, match=r"^case.mlir:5:8: the operation nobody.knows is unknown"):
        planned(function_text(case["grid"], {"x": X}, lines, ("%r", X)), case["grid"], [(8, 16)])


WITHOUT_ANNOTATIONS = {
    "arg_not_annotated": lambda kind: [f"%y = tosa.abs %x : ({kind}) -> {kind}", *annotated("r", "y", [[0]], kind)],
    "result_not_annotated": lambda kind: [
        *annotated("a", "x", [[0]], kind),
        f"%r = tosa.abs %a : ({kind}) -> {kind}",
    ],
    "result_for_users": lambda kind: [
        *annotated("a", "x", [[0]], kind),
        f"%y = tosa.abs %a : ({kind}) -> {kind}",
        *annotated("r", "y", [[]], kind, True),
    ],
}


@pytest.mark.parametrize("case", of_kind("partition_error"), ids=lambda case: case["error"])
def test_what_the_compiler_wants_annotated_is_found(spmd, case):
    kind = "tensor<7x3xf32>"
    text = function_text(case["grid"], {"x": kind}, WITHOUT_ANNOTATIONS[case["error"]](kind), ("%r", kind))
    part = planned(text, case["grid"], [(7, 3)])
    assert lists_of(part.sharding_of(0)) == [[0]]
    assert lists_of(part.out_shardings[0]) == ([[]] if case["error"] == "result_for_users" else [[0]])
    check_run(spmd, part, np.abs)
