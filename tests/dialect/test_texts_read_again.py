"""Texts that are printed and read again give equal modules, in all spellings."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.random_texts import Writer

import spmd_grid as sg
from spmd_grid import dialect

PROGRAMS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "programs").glob("*.mlir"))}
SEEDS = range(40)


def assert_reads_again(text):
    """Read and print in both forms."""
    module = dialect.parse(text)
    for generic in (False, True):
        printed = dialect.to_text(module, generic=generic)
        again = dialect.parse(printed)
        assert again.is_structurally_equivalent(module), printed
        assert dialect.to_text(again, generic=generic) == printed
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert_reads_again(PROGRAMS[name])


def test_random_programs():
    for seed in SEEDS:
        assert_reads_again(Writer(seed).program())


def test_names_and_lines_are_those_of_the_text():
    text = "\n// a grid\n  shard.grid @a(shape = 2)\nfunc.func @f() {\n"
    text += "  %i = shard.process_linear_index on @a : index\n  return\n}\n"
    module = dialect.parse(text, "f.mlir")
    places = {op.name: str(dialect.position_of(op)) for op in module.walk()}
    assert places["shard.grid"] == "f.mlir:3:3"
    assert places["func.func"] == "f.mlir:4:1"
    assert places["shard.process_linear_index"] == "f.mlir:5:8"
    assert places["func.return"] == "f.mlir:6:3"


TODAY = "shard.grid @g(shape = 2x?)\nfunc.func @f(%x: tensor<4x4xf32>) {{\n  {}\n  return\n}}\n"
SPELLINGS = [
    (
        "%0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x4xf32> -> tensor<4x8xf32>",
        "%0 = mesh.all_gather %x on @g mesh_axes = [0] gather_axis = 1 : tensor<4x4xf32> -> tensor<4x8xf32>",
    ),
    (
        "%0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : tensor<4x4xf32> -> tensor<4x8xf32>",
        '%0 = "mesh.all_gather"(%x) {mesh = @g, mesh_axes = array<i16: 0>, gather_axis = 1 : index} '
        ": (tensor<4x4xf32>) -> tensor<4x8xf32>",
    ),
    (
        "%0 = shard.reduce_scatter %x on @g grid_axes = [0] reduction = max scatter_dim = 1 "
        ": tensor<4x4xf32> -> tensor<4x2xf32>",
        "%0 = mesh.reduce_scatter %x on @g mesh_axes = [0] reduction = <max> scatter_axis = 1 "
        ": tensor<4x4xf32> -> tensor<4x2xf32>",
    ),
    (
        "%0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 1 : tensor<4x4xf32> -> tensor<4x2xf32>",
        '%0 = "mesh.reduce_scatter"(%x) <{mesh = @g, mesh_axes = array<i16: 0>, reduction = #mesh<partial sum>, '
        "scatter_axis = 1 : index}> : (tensor<4x4xf32>) -> tensor<4x2xf32>",
    ),
    (
        "%0 = shard.sharding @g split_axes = [[0]] partial = max [1] : !shard.sharding",
        "%0 = mesh.sharding @g split_axes = [[0]] partial = max[1] : !mesh.sharding",
    ),
    (
        "%0:2 = shard.grid_shape @g : index, index",
        "%0:2 = mesh.mesh_shape @g axes = [] : index, index",
    ),
    (
        "%0 = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 : tensor<4x4xf32> -> tensor<4x4xf32>",
        '%0 = "shard.shift"(%x) <{grid = @g, grid_axes = array<i16: 0>, shift_axis = 0 : index, offset = 1 : i64}> '
        ": (tensor<4x4xf32>) -> tensor<4x4xf32>",
    ),
]


@pytest.mark.parametrize("today, older", SPELLINGS)
def test_older_and_generic_spellings_are_read_as_those_of_today(today, older):
    wanted = dialect.parse(TODAY.format(today))
    for grid in ("shard.grid", "mesh.mesh"):
        module = dialect.parse(TODAY.replace("shard.grid", grid).format(older))
        assert module.is_structurally_equivalent(wanted)
        assert dialect.to_text(module) == dialect.to_text(wanted)


@pytest.mark.parametrize(
    "text, kind, value",
    [
        ("0x7F800000", "f32", np.float32("inf")),
        ("0xFF800000", "f32", np.float32("-inf")),
        ("0x3DCCCCCD", "f32", np.float32(0.1)),
        ("0xFFF0000000000000", "f64", -np.inf),
        ("0x3C00", "f16", 1.0),
        ("0x3F80", "bf16", 1.0),
        ("1.0000000000000002e+00", "f64", 1.0000000000000002),
        ("-0.0", "f64", -0.0),
        ("5.0e-324", "f64", 5e-324),
    ],
)
def test_bits_of_floats_are_kept(text, kind, value):
    module = assert_reads_again(
        f"func.func @f() {{\n  %0 = arith.constant dense<[{text}, 1.0]> : tensor<2x{kind}>\n"
        f"  %1 = arith.constant {text} : {kind}\n  return\n}}\n"
    )
    cells, number = [op.value for op in module.walk() if op.name == "arith.constant"]
    for found in (cells.get_values()[0], number.value.data):
        assert np.float64(found).tobytes() == np.float64(value).tobytes()


def mlp(x, w1, w2):
    hidden = np.maximum(x @ w1, 0.1)
    y = hidden @ w2
    return y[1:-1] - 2 * y[2:] + y[:-2], np.sum(np.exp(y - np.max(y, axis=-1, keepdims=True)), axis=-1) / 3, y.T


@pytest.mark.parametrize("stage", ["traced", "annotated", "materialised", "partitioned", "optimised"])
def test_stages_of_our_own_programs(stage):
    grid = sg.Grid((2, 3))
    specs = [sg.ArraySpec(shape, np.float32) for shape in ((8, 16), (16, 32), (32, 16))]
    part = sg.partition(
        sg.trace(mlp, *specs), grid, in_shardings=[sg.Sharding(grid, [[0], [1]]), None, sg.Sharding(grid, [[], [1]])]
    )
    assert_reads_again(part.text(stage))


def constants(x):
    long = np.linspace(0, 1, 40).reshape(8, 5)
    return x + long, np.where(np.isnan(x), -np.inf, x) / 3, (x > 0) & np.array([True, False, True, True, False])


def test_constants_of_our_own_programs_are_exact():
    grid = sg.Grid((2,))
    part = sg.partition(sg.trace(constants, sg.ArraySpec((8, 5), np.float64)), grid)
    module = assert_reads_again(part.text("partitioned"))
    found = [op.value for op in module.walk() if op.name == "arith.constant"]
    arrays = [np.array(each.get_values()) for each in found if hasattr(each, "get_values")]
    assert any(np.array_equal(array, np.linspace(0, 1, 40)) for array in arrays if array.size == 40)
    numbers = [each.value.data for each in found if not hasattr(each, "get_values")]
    assert -np.inf in numbers
