"""Operations whose types do not follow from one another are refused, with the place and the rule."""

import pytest

pytest.importorskip("xdsl")

from spmd_grid import dialect
from spmd_grid.errors import DialectVerifyError

A, B = "tensor<2x4x8xf32>", "tensor<2x8x3xf32>"
BATCH = "batching_dims = [0] x [0]"
ARGUMENTS = f"%a: {A}, %b: {B}, %m: memref<4x4xf32>, %s: tensor<f32>, %i: index, %c: tensor<2x4x8xi1>"

WRONG = [
    (f"%0 = tosa.add %a, %b : ({A}, {B}) -> {A}", "tosa.add: extents [4, 8] of dimension 1 do not fit one another"),
    (f"%0 = tosa.abs %a, %a : ({A}, {A}) -> {A}", "tosa.abs: expected 1 operands, found 2"),
    (f"%0 = tosa.abs %a : ({A}) -> tensor<2x4xf32>", "the result must have the shape 2x4x8, found 2x4"),
    (f"%0 = tosa.matmul %a, %a : ({A}, {A}) -> {A}", "operand 1 must have the shape 2x8x?, found 2x4x8"),
    (f"%0 = tosa.matmul %a, %b : ({A}, {B}) -> {A}", "the result must have the shape 2x4x3, found 2x4x8"),
    (f"%0 = tosa.reduce_sum %a {{axis = 3 : i32}} : ({A}) -> {A}", "axis 3 is out of bounds [0, 3)"),
    (f"%0 = tosa.reduce_sum %a {{axis = 1 : i32}} : ({A}) -> {A}", "the shape 2x1x8, found 2x4x8"),
    (f"%0 = tosa.reduce_sum %a : ({A}) -> {A}", "the attribute 'axis' is missing"),
    (f"%0 = tosa.transpose %a {{perms = array<i32: 0, 0, 1>}} : ({A}) -> {A}", "[0, 0, 1] is no order of the 3 dim"),
    (f"%0 = tosa.concat %a, %b {{axis = 1 : i32}} : ({A}, {B}) -> {A}", "every operand must have the shape 2x?x8"),
    (
        f"%0 = tosa.reshape %a {{new_shape = array<i64: 9>}} : ({A}) -> tensor<9xf32>",
        "the 64 cells of 2x4x8 are not the 9",
    ),
    (
        "%size = tosa.const_shape {values = dense<[4, 16]> : tensor<2xindex>} : () -> !tosa.shape<2>\n"
        f"  %0 = tosa.reshape %a, %size : ({A}, !tosa.shape<2>) -> tensor<16x4xf32>",
        "the result must have the shape 4x16, found 16x4",
    ),
    (
        '%0 = "tosa.const"() <{values = dense<0> : tensor<2xi32>}> : () -> tensor<3xi32>',
        "must have the type of the res",
    ),
    (f"%0 = stablehlo.add %a, %b : ({A}, {B}) -> {A}", "operand 1 must have the shape 2x4x8, found 2x8x3"),
    (
        f"%0 = stablehlo.dot_general %a, %b, {BATCH}, contracting_dims = [1] x [1] : ({A}, {B}) -> {A}",
        "the contracting dimensions of operand 1 must have the shape 4, found 8",
    ),
    (
        f"%0 = stablehlo.dot_general %a, %b, {BATCH}, contracting_dims = [2] x [1] : ({A}, {B}) -> {A}",
        "the result must have the shape 2x4x3, found 2x4x8",
    ),
    (
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [2, 2] x [1, 0] : ({A}, {B}) -> {A}",
        "[2, 2] must be different dimensions in [0, 3)",
    ),
    (f"%0 = stablehlo.transpose %a, dims = [0, 1] : ({A}) -> {A}", "[0, 1] is no order of the 3 dimensions"),
    (f"%0 = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<f32>) -> {A}", "a dimension for each of 0, found [0]"),
    (f"%0 = stablehlo.slice %a [0:2, 0:5, 0:8] : ({A}) -> tensor<2x5x8xf32>", "the range 0:5:1 does not lie in [0, 4)"),
    (f"%0 = stablehlo.slice %a [0:2, 0:4] : ({A}) -> tensor<2x4xf32>", "expected a range for each of 3 dimensions"),
    (
        f"%0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [1] : ({A}, tensor<f32>) -> {A}",
        "the result must have the shape 2x8, found 2x4x8",
    ),
    (
        f'%0 = "stablehlo.reduce"(%a, %s) <{{dimensions = array<i64: 1>}}> ({{\n'
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        f"  stablehlo.return %x : tensor<f32>\n}}) : ({A}, tensor<f32>) -> tensor<2x8xf32>",
        "the body must be one operation on both arguments",
    ),
    (f"%0 = stablehlo.compare LT, %a, %b : ({A}, {B}) -> tensor<2x4x8xi1>", "operand 1 must have the shape 2x4x8"),
    ("%0 = stablehlo.iota dim = 1 : tensor<4xi32>", "iota_dimension 1 is out of bounds [0, 1)"),
    ("%0 = func.call @h(%s) : (tensor<f32>) -> f32", "expected result type tensor<f32>, but provided f32"),
    ("%0 = func.call @h() : () -> tensor<f32>", "func.call"),
    (f"%0 = arith.addf %1, %a : {A}\n  %1 = arith.addf %a, %a : {A}", "operand 0 is used before it is defined"),
    (f"%0 = shard.all_gather %s on @g gather_axis = 0 : tensor<f32> -> {A}", "at least 1 dimension, found 0"),
    (
        f"%0 = shard.all_reduce %a on @g grid_axes = [0] reduction = bitwise_or : {A} -> {A}",
        "needs integers, found f32",
    ),
    (
        f"%0 = shard.broadcast %a on @g grid_axes = [0] root = [-1] : ({A}) -> {A}",
        "coordinate -1 is out of range [0, 2)",
    ),
    (f"%0 = shard.all_reduce %a on @g grid_axes = [-1] : {A} -> {A}", "grid axis -1 is negative"),
    ("%0 = shard.sharding @g split_axes = [[3]] : !shard.sharding", "grid axis 3 is out of bounds [0, 2)"),
    ("%0 = shard.sharding @g split_axes = [[0]] halo_sizes = [-1, 1] : !shard.sharding", "halo size -1 is negative"),
    ("%0 = shard.sharding @g split_axes = [[0]] partial = sum [0] : !shard.sharding", "grid axis 0 is duplicated"),
    (
        "%0 = shard.sharding @g split_axes = [[0, 1]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5] : !shard.sharding",
        "expected 7 (6 blocks and an end), found 6",
    ),
    (
        f"%t = shard.sharding @g split_axes = [[], [], [], [0]] : !shard.sharding\n  %0 = shard.shard %a to %t : {A}",
        "the sharding cuts dimension 3, the tensor has 3 dimensions",
    ),
    (
        "%t = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 1, 3] : !shard.sharding\n"
        f"  %0 = shard.shard %a to %t : {A}",
        "the offsets of dimension 0 end with 3; the tensor has 2 there",
    ),
    (
        "%t = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"
        "  %0 = shard.shard_shape dims = [8] sharding = %t device = [0] : index",
        "a device of this grid has 2 coordinates, found 1",
    ),
    (
        "%t = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"
        "  %0 = shard.shard_shape dims = [8] sharding = %t device = [0, 3] : index",
        "coordinate 3 of the device is out of bounds [0, 3) on axis 1",
    ),
    (
        "%0 = shard.update_halo %m on @g split_axes = [[0]] halo_sizes = [3, 2] : memref<4x4xf32>",
        "halos [3, 2] of dimension 0 do not fit in its 4 cells",
    ),
    (
        "%0 = shard.update_halo %m on @g split_axes = [[0]] halo_sizes = [1] : memref<4x4xf32>",
        "expected 2 for each of 1 split dimensions, 2 in all, found 1",
    ),
    (
        '%0 = "shard.broadcast"(%a) <{grid = @g, grid_axes = array<i16: 0>, root = array<i64: -9223372036854775808>}> '
        f": ({A}) -> {A}",
        "root leaves 1 entries to values, found 0 values",
    ),
    ("%0, %1 = shard.neighbors_linear_indices on @g[%i] split_axes = [0] : index, index", "2 coordinates, found 1"),
    (
        f"%0 = tensor.extract_slice %a[0, 3, 0] [2, 2, 8] [1, 1, 1] : {A} to tensor<2x2x8xf32>",
        "cell 4 of dimension 1 lies",
    ),
    (
        f"%0 = tensor.extract_slice %a[0, 0, 0] [2, 2, 8] [1, 1, 0] : {A} to tensor<2x2x8xf32>",
        "or a stride 0: [0, 8, 0]",
    ),
    (f"%0 = tensor.extract_slice %a[0, 0, 0] [2, 2, 8] [1, 1, 1] : {A} to tensor<2x8xf32>", "of 2x2x8 cells does not"),
    (f"%0 = tensor.extract_slice %a[0, 0] [2, 2] [1, 1] : {A} to tensor<2x2xf32>", "expected 3 offsets, found 2"),
    (f"%0 = tensor.insert_slice %a into %b[0, 0, 0] [2, 4, 8] [1, 1, 1] : {A} into {B}", "cell 7 of dimension 2 lies"),
    (f"%0 = tensor.collapse_shape %a [[0, 1], [2]] : {A} into tensor<8x9xf32>", "the 8 cells of 8 are not the 9 of 9"),
    (f"%0 = tensor.collapse_shape %a [[0, 1]] : {A} into tensor<8xf32>", "must name all 3 dimensions in order"),
    ("%0 = tensor.empty() : tensor<?xf32>", "expected 1 values of open extents, found 0"),
    (f"%0 = tensor.extract %a[%i] : {A}", "expected 3 indices, found 1"),
    (f"%0 = arith.extf %a : {A} to tensor<2x4x7xf64>", "the shape 2x4x8, found 2x4x7"),
    (f"%0 = arith.truncf %a : {A} to tensor<2x4x8xf64>", "must have fewer bits than"),
    (
        "%p = arith.constant true\n  %0 = scf.if %p -> (f32) {\n    scf.yield %i : index\n  } else {\n"
        "    scf.yield %i : index\n  }",
        "the first branch must give (f32), found index",
    ),
]


@pytest.mark.parametrize("lines, rule", WRONG)
def test_refused(lines, rule):
    text = f"shard.grid @g(shape = 2x3)\nfunc.func @f({ARGUMENTS}) {{\n  {lines}\n  return\n}}\n"
    text += "func.func private @h(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n"
    with pytest.raises(DialectVerifyError) as refusal:
        dialect.parse(text, "wrong.mlir")
    assert rule in str(refusal.value)
    # The first operation of the lines that is wrong is the last one, but for the value that comes too late.
    line = 3 if "before" in rule else 3 + (lines[: lines.rindex("%0 =")].count("\n") if "%0 =" in lines else 0)
    assert str(refusal.value).startswith(f"wrong.mlir:{line}:")


OLDER = {
    "mesh.cluster @m(rank = 0)": "1:1: mesh.cluster: the rank of a cluster is 0; it must be from 1 to 64",
    "mesh.cluster @m(rank = 2, dim_sizes = [2, 3, 4])": "1:1: mesh.cluster: dim_sizes has 3 sizes, and the rank is 2",
    "mesh.cluster @m(rank = 1)\nfunc.func @f(%x: tensor<4xf32>) {\n"
    "  %0 = mesh.annotate %x {sharding = [[0], [], []]} : tensor<4xf32> -> tensor<4xf32>\n  return\n}": "3:8: "
    "mesh.annotate: sharding has 3 lists; the tensor has 1 dimensions",
    "func.func @f(%x: tensor<4xf32>) {\n  %0 = mesh.annotate %x {sharding = [[0]]} : tensor<4xf32> -> tensor<4xf32>\n"
    "  return\n}": "2:8: mesh.annotate: neither it nor the function around it names a mesh",
}


@pytest.mark.parametrize("text", OLDER)
def test_older_operations_without_a_meaning_are_refused(text):
    with pytest.raises(DialectVerifyError) as refusal:
        dialect.parse(text, "older.mlir")
    assert str(refusal.value) == f"older.mlir:{OLDER[text]}"


RIGHT = [
    f"%0 = tensor.extract_slice %a[0, 3, 0] [1, 1, 4] [1, 1, 2] : {A} to tensor<4xf32>",
    f"%0 = tensor.extract_slice %a[0, %i, 0] [2, 1, 8] [1, 1, 1] : {A} to tensor<2x8xf32>",
    f"%0 = tensor.extract_slice %a[0, %i, 0] [2, %i, 8] [1, 1, 1] : {A} to tensor<2x?x8xf32>",
    "%0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x4xf32>",
    f"%0 = stablehlo.select %c, %a, %a : tensor<2x4x8xi1>, {A}",
    "%0 = tensor.empty(%i) : tensor<?x4xf32>",
    "%0 = shard.broadcast %s on @g grid_axes = [1, 0] root = [2, %i] : (tensor<f32>, index) -> tensor<f32>",
    "%t = shard.sharding @g split_axes = [[]] : !shard.sharding\n"
    "  %0:2 = shard.shard_shape dims = [8, %i] sharding = %t device = [3] : index, index",
]


@pytest.mark.parametrize("lines", RIGHT)
def test_taken(lines):
    dialect.parse(f"shard.grid @g(shape = 2x3)\nfunc.func @f({ARGUMENTS}) {{\n  {lines}\n  return\n}}\n")
