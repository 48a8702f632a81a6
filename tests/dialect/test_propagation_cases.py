"""The dialect's own cases of propagation: shardings that follow from annotations.

Deviation from the compiler, on purpose: what it cannot propagate is refused when the text is read.
"""

import pytest

pytest.importorskip("xdsl")

from support.dialect.annotated_texts import annotated, function_text, lists_of, planned
from support.dialect.case_texts import tensor
from support.dialect.cases import of_kind
from support.dialect.compiler import NO_COMPILER, installed_compiler
from support.dialect.upstream import propagated

from spmd_grid.dialect import parse, to_text
from spmd_grid.dialect.execute.runner import function_of
from spmd_grid.errors import DialectError

X = "tensor<8x16xf32>"
WITH_COMPILER = pytest.mark.skipif(installed_compiler() is None, reason=NO_COMPILER)
PROPAGATION = {case["name"]: case for case in of_kind("propagation")}


PLACES = "argument", "result", "operand"
PRODUCTS = "matmul_result_01", "matmul_result_mn", "matmul_lhs_mk", "matmul_both_k"


def elementwise_text(where):
    """A function of one operation, with an annotation of one of its values."""
    case = PROPAGATION["elementwise_any_annotation"]
    lines = {
        "argument": [*annotated("a", "x", case["given"], X), f"%r = tosa.sigmoid %a : ({X}) -> {X}"],
        "result": [f"%y = tosa.sigmoid %x : ({X}) -> {X}", *annotated("r", "y", case["given"], X)],
        "operand": [*annotated("a", "x", case["given"], X, True), f"%r = tosa.sigmoid %a : ({X}) -> {X}"],
    }[where]
    return function_text(case["grid"], {"x": X}, lines, ("%r", X))


@pytest.mark.parametrize("where", PLACES)
def test_an_annotation_of_an_elementwise_operation_holds_everywhere(where):
    case = PROPAGATION["elementwise_any_annotation"]
    part = planned(elementwise_text(where), case["grid"], [(8, 16)])
    found = {value.name: lists_of(part.sharding_of(value)) for value in part.program.values}
    assert set(map(str, found.values())) == {str(case["everywhere"])}, found


def product_text(name):
    """A function of one product, with annotations of operands or of the result."""
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
    return function_text(case["grid"], {"A": kinds["A"], "B": kinds["B"]}, lines, (result, kinds["C"]))


@pytest.mark.parametrize("name", PRODUCTS)
def test_annotations_of_products(name):
    case = PROPAGATION[name]
    part = planned(product_text(name), case["grid"], [case["A"], case["B"]])
    found = {"A": part.sharding_of(0), "B": part.sharding_of(1), "C": part.out_shardings[0]}
    assert {each: lists_of(found[each]) for each in case["inferred"]} == case["inferred"]


@WITH_COMPILER
@pytest.mark.parametrize("text", [*map(elementwise_text, PLACES), *map(product_text, PRODUCTS)])
def test_the_compilers_propagation_finds_the_same(text):
    """The pass itself, where a compiler is installed: of arguments, and of what is returned."""
    arguments, results = propagated(installed_compiler(), to_text(parse(text)))
    module = parse(text)
    shapes = [x.type.get_shape() for x in function_of(module, None).regions[0].block.args]
    part = planned(text, PROPAGATION["matmul_lhs_mk"]["grid"], shapes)
    assert arguments == [lists_of(part.sharding_of(n)) for n in range(len(shapes))]
    assert results == [lists_of(each) for each in part.out_shardings]


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
