"""Operations of our own, which texts have as calls of declared functions, in both directions."""

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.programs import of_dtype, part_of_dtypes, part_of_layouts
from support.dialect.stages import check_stage

from spmd_grid import dialect
from spmd_grid.dialect.execute.reading import attribute, name_of
from spmd_grid.errors import DialectError
from spmd_grid.program.text.stages import STAGES

X = "tensor<4xf32>"
CALLED = f"""shard.grid @g(shape = 2)
func.func @f(%x: {X}) -> {X} attributes {{spmd_grid.grid = @g}} {{
  %s = shard.sharding @g split_axes = [[]] {{
    spmd_grid.partial_axes = [0], spmd_grid.partial_kind = "max"
  }} : !shard.sharding
  %0 = shard.shard %x to %s {{spmd_grid.required = false}} : {X}
  %1 = call @numpy.roll(%0) {{spmd_grid.shift = 1, spmd_grid.sharding = [[0]]}} : ({X}) -> {X}
  %2 = call @numpy.roll$1(%1) {{spmd_grid.shift = 2}} : ({X}) -> tensor<4xf64>
  %3 = func.call @numpy.abs(%1) : ({X}) -> {X}
  return %3 : {X}
}}
func.func private @numpy.roll({X}) -> {X}
func.func private @numpy.roll$1({X}) -> tensor<4xf64>
func.func private @numpy.abs({X}) -> {X}
"""
GENERIC = f"""shard.grid @g(shape = 2)
func.func @f(%x: {X}) -> {X} attributes {{grid = @g}} {{
  %s = shard.sharding @g split_axes = [[]] partial = max [0] : !shard.sharding
  %0 = shard.shard %x to %s {{required = false}} : {X}
  %1 = "numpy.roll"(%0) {{shift = 1, sharding = [[0]]}} : ({X}) -> {X}
  %2 = "numpy.roll"(%1) {{shift = 2}} : ({X}) -> tensor<4xf64>
  %3 = "numpy.abs"(%1) : ({X}) -> {X}
  return %3 : {X}
}}
"""


def test_calls_are_the_operations_of_older_texts():
    module, older = dialect.parse(CALLED, "called.mlir"), dialect.parse(GENERIC, "older.mlir")
    assert module.is_structurally_equivalent(older)
    assert dialect.to_text(module) == dialect.to_text(older)
    assert dialect.parse(dialect.to_text(module)).is_structurally_equivalent(module)
    rolls = [op for op in module.walk() if name_of(op) == "numpy.roll"]
    assert [attribute(op, "shift").value.data for op in rolls] == [1, 2]
    assert str(dialect.position_of(rolls[0])) == "called.mlir:7:8"


def test_a_function_with_a_body_is_called_as_it_is():
    text = f"func.func @numpy.abs(%x: {X}) -> {X} {{\n  return %x : {X}\n}}\n"
    text += f"func.func @f(%x: {X}) -> {X} {{\n  %0 = call @numpy.abs(%x) : ({X}) -> {X}\n  return %0 : {X}\n}}\n"
    assert "func.call" in {op.name for op in dialect.parse(text).walk()}


SHARDED = "func.func @f(%x: tensor<4x4xf32, {}>) {{ return }}"
WRONG = {
    CALLED.replace("%3 = func.call @numpy.abs(%1)", "%3 = func.call @numpy.ab(%1)"): "9:8: func.call: '@numpy.ab'",
    CALLED.replace("(%1) {spmd_grid.shift = 2}", "(%1, %1) {spmd_grid.shift = 2}").replace(
        f"2}} : ({X}) -> tensor<4xf64>", f"2}} : ({X}, {X}) -> tensor<4xf64>"
    ): "8:8: func.call: operands and results are not those of @numpy.roll$1",
    CALLED.replace("partial_axes = [0]", "partial_axes = [-1]"): "3:8: shard.sharding: partial_axes must be a list",
    CALLED.replace('"max"', '"most"'): "3:8: shard.sharding: partial_kind must be one of",
    SHARDED.format("{split_axes = [[0]], halo = 1}"): "1:25: a sharding has no halo; beside split_axes there are",
    SHARDED.format('{split_axes = [["x"]]}'): "1:25: a sharding has lists of integers, found",
    SHARDED.format("{split_axes = 1}"): "1:25: split_axes must be a list",
    SHARDED.format("{split_axes = [[0]], blocks = 1}"): "1:25: blocks must be a text, found",
    "func.func @f() {\n  shard.grid @g(shape = 2)\n  return\n}": "2:3: shard.grid: a grid stands in a module",
    f"shard.grid @g(shape = 2x{2**63})": "a size of a grid needs more than 63 bits",
    "func.func @f() attributes {a = 2 : f32} {\n  return\n}": "1:32: a number of type f32 has a point",
    f"func.func @f(%x: {X}) {{\n  %0 = stablehlo.add %x, %x, : {X}\n  return\n}}": "2:30: expected a value after",
    f"func.func @f(%x: {X}) -> {X} {{\n  tensor.yield %x : {X}\n}}": "2:3: tensor.yield: it stands at the end of @f",
    "func.func @f()": "1:1: func.func: @f has no body; it must be private",
    f"func.func @f() {{\n  %0 = arith.constant {2**63} : index\n  return\n}}": "2:8: arith.constant: value",
}


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_the_compiler_refuses_is_refused_with_its_place(number):
    text, message = list(WRONG.items())[number]
    with pytest.raises(DialectError) as refusal:
        dialect.parse(text, "wrong.mlir")
    assert message in str(refusal.value) and str(refusal.value).startswith("wrong.mlir:")


def test_collectives_of_global_types_are_calls():
    split, whole = "tensor<4xf32, {split_axes = [[0]]}>", X
    older = (
        f"shard.grid @g(shape = 2)\nfunc.func @f(%x: {split}) -> {whole} attributes {{grid = @g}} {{\n"
        f"  %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : {split} -> {whole}\n"
        f"  return %0 : {whole}\n}}\n"
    )
    module = dialect.parse(older)
    printed = dialect.to_text(module)
    assert "func.call @spmd_grid.all_gather(%x) {" in printed and "shard.all_gather" not in printed
    assert dialect.parse(printed).is_structurally_equivalent(module)
    with pytest.raises(DialectError, match=r":4:\d+: shard.all_gather: grid axis 1 is out of bounds"):
        dialect.parse(printed.replace("grid_axes = [0]", "grid_axes = [1]"))
    with pytest.raises(DialectError, match=r":4:\d+: func.call: reduction must be one of"):
        dialect.parse(
            printed.replace("all_gather", "all_reduce").replace("gather_axis = 0 : i64", 'reduction = "most"')
        )


PARALLEL = """func.func @main(%m: memref<4x6xf32>, %f: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  scf.parallel (%i, %j) = (%c0, %c0) to (%c4, %c6) step (%n, %n) {
    memref.store %f, %m[%i, %j] : memref<4x6xf32>
    scf.reduce
  }
  return
}
"""


def test_the_pretty_form_of_parallel_loops():
    module = dialect.parse(PARALLEL)
    printed = dialect.to_text(module)
    assert "scf.parallel (%i, %j) = (%c0, %c0) to (%c4, %c6) step (%n, %n) {" in printed
    for text in (printed, dialect.to_text(module, generic=True), PARALLEL.replace("    scf.reduce\n", "")):
        assert dialect.parse(text).is_structurally_equivalent(module)
    with pytest.raises(DialectError, match=r"^<text>:5:"):
        dialect.parse(PARALLEL.replace("step (%n, %n)", "step (%n, %f)"))


@pytest.mark.parametrize("dtype", ["u2", "g", "c16", "m8[s]", "S3", "?"])
def test_stages_of_other_element_types_run(spmd, dtype):
    """Unsigned numbers, long ones, dates and texts: types and constants keep them exactly."""
    part = part_of_dtypes(dtype)
    kind = np.dtype(dtype)
    x = np.arange(8).astype(kind) if kind.kind != "S" else np.array([b"ab", b"", b"c", b"xyz"] * 2, kind)
    for stage in STAGES:
        check_stage(spmd, part, stage, [x], of_dtype(x))


def test_layouts_of_every_kind_run(spmd):
    """Offsets, halos and both, balanced blocks, devices in another order, sums that stay partial."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal((9, 6)) for _ in range(5)]
    a, b, c, d, e = arrays
    for args in ("local", "global"):
        check_stage(spmd, part_of_layouts(args), "optimised", arrays, (a + b, c * d, e - a, a.sum(axis=0)))
