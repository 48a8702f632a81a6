"""The dialect's own cases of partition: blocks, communication and values of partitioned operations.

Deviations from the compiler, all on purpose:

* arguments and results without annotations (`partition_error`) are not refused: propagation finds their shardings;
* an operation that nobody knows is refused when the text is read, also where nothing is cut;
* an annotation of a result for its users alone leaves the result as it is, and reshards what is returned.
"""

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.annotated_texts import annotated, check_run, function_text, lists_of, planned
from support.dialect.case_texts import tensor
from support.dialect.cases import of_kind

from spmd_grid.errors import DialectError

X = "tensor<8x16xf32>"
PARTITION = {case["name"]: case for case in of_kind("partition_op")}


def one_dimensional(case, lines, result):
    kind = tensor(case["shape"], "f32")
    text = function_text(case["grid"], {"x": kind}, lines(kind), result(kind))
    return planned(text, case["grid"], [case["shape"]])


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
