"""Texts that are printed and read again give equal modules, in all spellings."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.random_texts import Writer

import spmd_grid as sg
from spmd_grid import dialect
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.program.text.stages import STAGES

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


FIRST_YEARS = """mesh.cluster @m(rank = 3, dim_sizes = [2, 0, 4])
mesh.cluster @two(rank = 2, dim_sizes = 2x?)
mesh.cluster @open(rank = 2)
mesh.mesh @last(shape = 2x4)
func.func @f(%a: tensor<4x8xf32, #mesh.shard<@m, [[0]]>>, %x: tensor<4x8xf32>, %y: tensor<4xf32>)
    attributes {mesh_cluster = @m} {
  %0 = mesh.shard %x to <@m, [[0]]> : tensor<4x8xf32>
  %1 = mesh.shard %0 to <@m, [[0]], partial = max[2]> annotate_for_users : tensor<4x8xf32>
  %2 = mesh.all_reduce %y {
    mesh = @m, mesh_axes = array<i16: 2, 0>, reduction = #mesh.partial<max>
  } : tensor<4xf32> -> tensor<4xf64>
  %3 = mesh.all_gather %y {mesh = @m, mesh_axes = array<i16: 2>, gather_axis = 0} : tensor<4xf32> -> tensor<16xf32>
  %4 = mesh.reduce_scatter %y {mesh = @m, mesh_axes = array<i16: 0>, scatter_axis = 0} : tensor<4xf32> -> tensor<2xf64>
  %5:3 = mesh.cluster_shape @m : index, index, index
  %6 = "mesh.annotate"(%x) {sharding = [[], [0], [2]], as_result = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
func.func @g(%x: tensor<4x8xf32, #mesh.shard<[[0], [1]]>>) -> index attributes {mesh_cluster = @last} {
  %0 = mesh.size {axis = 1 : index} : index
  %1 = mesh.idx(0)
  %2 = mesh.all_gather %x {mesh_axis = [[0], [1]]} : tensor<4x8xf32, #mesh.shard<[[0], [1]]>> -> tensor<4x8xf32>
  %3 = mesh.annotate %2 {sharding = [[1]], required = false} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : index
}
"""
OF_TODAY = """shard.grid @m(shape = 2x?x4)
shard.grid @two(shape = 2x?)
shard.grid @open(shape = ?x?)
shard.grid @last(shape = 2x4)
func.func @f(%a: tensor<4x8xf32, #shard.shard<[[0]], grid = "m">>, %x: tensor<4x8xf32>, %y: tensor<4xf32>)
    attributes {grid = @m} {
  %s = shard.sharding @m split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %t = shard.sharding @m split_axes = [[0]] partial = max [2] : !shard.sharding
  %1 = shard.shard %0 to %t annotate_for_users : tensor<4x8xf32>
  %2 = shard.all_reduce %y on @m grid_axes = [2, 0] reduction = max : tensor<4xf32> -> tensor<4xf64>
  %3 = shard.all_gather %y on @m grid_axes = [2] gather_axis = 0 : tensor<4xf32> -> tensor<16xf32>
  %4 = shard.reduce_scatter %y on @m grid_axes = [0] scatter_dim = 0 : tensor<4xf32> -> tensor<2xf64>
  %5:3 = shard.grid_shape @m : index, index, index
  %u = shard.sharding @m split_axes = [[], [0]] partial = sum [2] : !shard.sharding
  %6 = shard.shard %x to %u annotate_for_users : tensor<4x8xf32>
  return
}
func.func @g(%x: tensor<4x8xf32, #shard.shard<[[0], [1]]>>) -> index attributes {grid = @last} {
  %0 = shard.grid_shape @last axes = [1] : index
  %i = shard.process_multi_index on @last axes = [0] : index
  %1 = arith.index_cast %i : index to i64
  %h = shard.all_gather %x on @last grid_axes = [0] gather_axis = 0
    : tensor<4x8xf32, #shard.shard<[[0], [1]]>> -> tensor<4x8xf32, #shard.shard<[[], [1]]>>
  %2 = shard.all_gather %h on @last grid_axes = [1] gather_axis = 1
    : tensor<4x8xf32, #shard.shard<[[], [1]]>> -> tensor<4x8xf32>
  %s = shard.sharding @last split_axes = [[1]] : !shard.sharding
  %3 = shard.shard %2 to %s {required = false} : tensor<4x8xf32>
  return %0 : index
}
"""


def test_words_of_the_first_years_become_those_of_today():
    """The RFC's operations, and those of the first dialect whose parts were attributes."""
    module, wanted = dialect.parse(FIRST_YEARS), dialect.parse(OF_TODAY)
    assert module.is_structurally_equivalent(wanted), dialect.to_text(module)
    assert_reads_again(FIRST_YEARS)


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


def run_constant(text, kind):
    """The value of a constant, of a module that is read twice as equal ones."""
    text = f"func.func @main() -> {kind} {{\n  %0 = arith.constant {text} : {kind}\n  return %0 : {kind}\n}}\n"
    assert assert_reads_again(text).is_structurally_equivalent(dialect.parse(text))
    return FunctionRunner(dialect.parse(text, "constant.mlir")).call("main", [])[0]


CONSTANTS = [
    ("0x7FC00000", "f32", np.float32("nan")),
    ("0x7FF8000000000001", "f64", np.float64("nan")),
    ("dense<0x7FC00000>", "tensor<2xf32>", np.full(2, np.nan, "f4")),
    ("dense<[0x7E00, 1.0]>", "tensor<2xf16>", np.array([np.nan, 1], "f2")),
    ("dense<1.5>", "tensor<2x3xf64>", np.full((2, 3), 1.5)),
    ("dense<[true, false]>", "tensor<2xi1>", np.array([True, False])),
    ("dense<[1, 0]>", "tensor<2xi1>", np.array([True, False])),
    ("dense<[[1, -3]]>", "tensor<1x2xindex>", np.array([[1, -3]])),
    ("dense<7>", "tensor<2xindex>", np.array([7, 7])),
    ("dense<>", "tensor<0x3xf32>", np.zeros((0, 3), "f4")),
    ("dense<(1.0, -2.0)>", "tensor<2xcomplex<f32>>", np.full(2, 1 - 2j, "c8")),
    ('dense<"0x0000803F">', "tensor<2xf32>", np.ones(2, "f4")),
    # Bits of complex numbers, alone and beside digits.
    ("dense<(0x3FF0000000000000, 0x4000000000000000)>", "tensor<2xcomplex<f64>>", np.full(2, 1 + 2j)),
    (
        "dense<[(0x7F800000, 0.5), (-1.0, 0xFF800000)]>",
        "tensor<2xcomplex<f32>>",
        np.array([complex(np.inf, 0.5), complex(-1, -np.inf)], "c8"),
    ),
    # Cells of i1 as bytes.
    ('dense<"0x010001">', "tensor<3xi1>", np.array([True, False, True])),
    ('dense<"0x' + "010001" * 40 + '">', "tensor<40x3xi1>", np.array([[True, False, True]] * 40)),
    ('dense<"0x01">', "tensor<1xi1>", np.array([True])),
    # Unsigned ones, which are no constants of arith when printed.
    ("dense<1>", "tensor<2xui8>", np.ones(2, "u1")),
    ("dense<[[1, 255]]>", "tensor<1x2xui8>", np.array([[1, 255]], "u1")),
    ("dense<>", "tensor<0xui16>", np.zeros(0, "u2")),
]


@pytest.mark.parametrize("text, kind, value", CONSTANTS)
def test_constants_run(text, kind, value):
    found = run_constant(text, kind)
    assert found.dtype == value.dtype and np.array_equal(found, value, equal_nan=value.dtype.kind in "fc")


@pytest.mark.parametrize(
    "kind, name",
    [("bf16", "bfloat16"), ("f8E4M3FN", "float8_e4m3fn"), ("f8E5M2", "float8_e5m2"), ("f8E4M3FNUZ", "float8_e4m3fnuz")],
)
def test_constants_of_short_floats(kind, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    found = run_constant("dense<[1.5, -0.25]>", f"tensor<2x{kind}>")
    assert found.dtype == getattr(ml_dtypes, name) and found.astype("f4").tolist() == [1.5, -0.25]


@pytest.mark.parametrize(
    "text, kind, words",
    [
        (
            "dense_resource<__elided__>",
            "tensor<4xf32>",
            r"(?s)the cells of the constant are not in the text.*constant.mlir:2:8: ",
        ),
        ("dense<...>", "tensor<4xf32>", r"constant.mlir:2:29: Expected either a float"),
        ("dense<__elided__>", "tensor<4xf32>", r"constant.mlir:2:29: Expected either a float"),
        (
            'dense<"0x01">',
            "tensor<8xi1>",
            r"constant.mlir:2:39: an i1 array has 2 hexadecimal digits; it must have one",
        ),
        (
            'dense<"0xFF">',
            "tensor<1xi1>",
            r"constant.mlir:2:39: an i1 array has 2 hexadecimal digits; it must have one",
        ),
        ("dense<(1.0, 2.0)>", "tensor<2xf32>", r"constant.mlir:2:29: a complex number is no cell of f32"),
        ("dense<1.0>", "tensor<2xcomplex<f32>>", r"constant.mlir:2:29: a cell of complex<f32> has two parts"),
        ("dense<(0x3FF0, 1.0)>", "tensor<2xcomplex<f32>>", r"constant.mlir:2:30: the bits of f32 are 8 hexadecimal"),
    ],
)
def test_constants_that_are_refused(text, kind, words):
    text = f"func.func @main() -> {kind} {{\n  %0 = arith.constant {text} : {kind}\n  return %0 : {kind}\n}}\n"
    with pytest.raises(sg.SpmdError) as refusal:
        FunctionRunner(dialect.parse(text, "constant.mlir")).call("main", [])
    assert re.search(words, "\n".join([str(refusal.value), *getattr(refusal.value, "__notes__", [])]))


def test_unsigned_constants_are_printed_as_compilers_take_them():
    """Constants of arith have no sign; ours are arguments of a declared function."""
    kind = "tensor<2xui8>"
    text = f"func.func @f() -> {kind} {{\n  %0 = arith.constant dense<1> : {kind}\n  return %0 : {kind}\n}}"
    printed = dialect.to_text(dialect.parse(text))
    assert "arith.constant" not in printed
    assert "@spmd_grid.constant() {spmd_grid.value = dense<1> : tensor<2xui8>}" in printed
    grid = sg.Grid((2,))
    program = sg.trace(lambda x: x + np.array([1, 2], "u1"), sg.ArraySpec((2,), np.uint8))
    for stage in STAGES:
        assert not re.search(r"arith.constant.*ui8", sg.partition(program, grid).text(stage))


@pytest.mark.parametrize(
    ("kind", "due"), [("i1", [False, True, False]), ("f64", [0, 1, 0]), ("complex<f32>", [0, 1, 2j])]
)
def test_complex_numbers_are_converted_by_their_real_parts(kind, due):
    text = f"""func.func @main() -> tensor<3x{kind}> {{
  %0 = stablehlo.constant dense<[(0.0, 0.0), (1.0, 0.0), (0.0, 2.0)]> : tensor<3xcomplex<f64>>
  %1 = stablehlo.convert %0 : (tensor<3xcomplex<f64>>) -> tensor<3x{kind}>
  return %1 : tensor<3x{kind}>
}}
"""
    assert FunctionRunner(dialect.parse(text)).call("main", [])[0].tolist() == due
