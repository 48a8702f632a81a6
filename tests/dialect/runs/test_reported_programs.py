"""Forms of text that other people's compilers write, arguments of one device alone, and fair comparisons."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid import dialect
from spmd_grid.cli.main import main
from spmd_grid.dialect.execute.faults import CheckError
from spmd_grid.dialect.running import inputs
from spmd_grid.dialect.running.checking import SerialRun, compared
from spmd_grid.dialect.running.job import Job, run_job

BUFFERS = """shard.grid @g(shape = 3)
func.func @scatter(%a: memref<3x4xf32>) -> memref<1x4xf32> {
  %0 = shard.reduce_scatter %a on @g grid_axes = [0] scatter_dim = 0 : memref<3x4xf32> -> memref<1x4xf32>
  return %0 : memref<1x4xf32>
}
func.func @gather(%a: memref<3x4xf32>) -> memref<3x12xf32> {
  %0 = shard.all_gather %a on @g grid_axes = [0] gather_axis = 1 : memref<3x4xf32> -> memref<3x12xf32>
  return %0 : memref<3x12xf32>
}
"""
RANK = """module attributes { mpi.dlti = #dlti.map<"MPI:comm_world_rank" = 1> } {
  shard.grid @g(shape = 2)
  func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, !shard.sharding) {
    %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<2xf32> -> tensor<2xf32>
    %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
    return %0, %s : tensor<2xf32>, !shard.sharding
  }
}
"""
BF16 = """shard.grid @g(shape = 2)
func.func @f(%a: tensor<4x3xbf16>, %b: tensor<3x2xbf16>) -> tensor<4x2xbf16> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x = shard.shard %a to %s : tensor<4x3xbf16>
  %0 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] :
    (tensor<4x3xbf16>, tensor<3x2xbf16>) -> tensor<4x2xbf16>
  return %0 : tensor<4x2xbf16>
}
func.func @alone(%a: tensor<4x3xbf16>, %b: tensor<3x2xbf16>) -> tensor<4x2xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :
    (tensor<4x3xbf16>, tensor<3x2xbf16>) -> tensor<4x2xbf16>
  return %0 : tensor<4x2xbf16>
}
"""
POINTS = """shard.grid @g(shape = 2)
func.func @f(%a: tensor<1x4x3xf32>, %b: tensor<1x3x2xf32>, %p: tensor<1xf32>, %q: tensor<1xf32>) -> tensor<1x4x2xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %x = shard.shard %a to %s : tensor<1x4x3xf32>
  %0 = tosa.matmul %x, %b, %p, %q :
    (tensor<1x4x3xf32>, tensor<1x3x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x2xf32>
  return %0 : tensor<1x4x2xf32>
}
"""
OPEN = """shard.grid @g(shape = ?x?)
shard.grid @h(shape = 2x?)
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = shard.all_reduce %x on @g grid_axes = [0] : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def checked(spmd, ranks, text, function, *given):
    """A checked run: the arrays that it returns on each process."""
    module = dialect.parse(text, "given.mlir")

    def body():
        found = run_job(module, Job(function, given, is_checked=True, shows_results=False))
        return [getattr(x, "local", x) for x in found]

    return spmd(ranks, body)


@pytest.mark.parametrize("function", ["scatter", "gather"])
def test_collectives_of_buffers(spmd, function):
    found = checked(spmd, 3, BUFFERS, function, "iota")
    whole = np.arange(36.0).reshape(3, 3, 4)
    due = whole.sum(0) if function == "scatter" else np.concatenate(whole, 1)
    for rank, (result,) in enumerate(found):
        assert np.array_equal(result, due[rank : rank + 1] if function == "scatter" else due)


def test_attributes_of_dlti_and_shardings_as_results(spmd, tmp_path):
    module = dialect.parse(RANK)
    assert dialect.parse(dialect.to_text(module)).is_structurally_equivalent(module)
    found = checked(spmd, 2, RANK, "f", "ones")
    assert [result.tolist() for result, _ in found] == [[2.0, 2.0]] * 2
    outputs = str(tmp_path / "a.npy"), str(tmp_path / "b.npy")
    with pytest.raises(sg.SpmdError, match="a sharding is no array"):
        spmd(2, lambda: run_job(module, Job("f", ("ones",), outputs, shows_results=False)))
    assert not (tmp_path / "b.npy").exists()


@pytest.mark.parametrize("function", ["f", "alone"])
def test_products_of_bfloat16(spmd, function):
    pytest.importorskip("ml_dtypes")
    assert len(checked(spmd, 2, BF16, function)) == 2


def test_zero_points_as_arguments(spmd):
    checked(spmd, 2, POINTS, "f", "random", "random", "zeros", "zeros")
    with pytest.raises(sg.SpmdError, match="a zero point is not 0"):
        checked(spmd, 2, POINTS, "f", "random", "random", "zeros", "ones")


def test_the_shape_of_a_grid_that_the_text_leaves_open(tmp_path, capsys):
    path = tmp_path / "open.mlir"
    path.write_text(OPEN)
    assert main(["run", str(path), "--grid", "g=2x2", "--check", "serial", "--quiet"]) == 0
    assert "that computes all 4 devices" in capsys.readouterr().out
    assert main(["run", str(path)]) != 0
    assert "--grid 2x3" in capsys.readouterr().err
    *grids, _ = dialect.parse(OPEN, grid_shapes={"g": (3, 1), "h": (2, 5)}).ops
    assert [op.sizes for op in grids] == [(3, 1), (2, 5)]
    for given, words in {
        "": "2 grids have open sizes",
        "q": "there is no grid @q",
        "h": "the shape 3x2 is asked for; the text has 2x?",
    }.items():
        with pytest.raises(sg.SpmdError, match=words.replace("?", r"\?")):
            dialect.parse(OPEN, grid_shapes={given: (3, 2)})


def test_each_device_makes_its_own_arguments_alone(spmd, monkeypatch):
    made = []
    original = inputs._GENERATORS["random"]

    def counted(shape, *rest):
        made.append(int(np.prod(shape)))
        return original(shape, *rest)

    monkeypatch.setitem(inputs._GENERATORS, "random", counted)
    module = dialect.parse(BUFFERS)
    found = spmd(3, lambda: run_job(module, Job("gather", shows_results=False)))
    assert made and set(made) == {12} and len(made) <= 3
    blocks = np.split(found[0][0], 3, 1)
    assert not np.array_equal(blocks[0], blocks[1])  # devices have numbers of their own


def test_rounding_is_judged_by_a_run_with_more_digits():
    right = np.linspace(-1, 1, 1000)
    noise = np.random.default_rng(1).standard_normal(1000) * 1e-5
    serial, ours = ((right + each).astype("f4") for each in (noise, noise[::-1]))
    with pytest.raises(CheckError):
        compared("x", ours, serial)
    assert compared("x", ours, serial, lambda: right).startswith("equal but for rounding")
    with pytest.raises(CheckError):
        compared("x", ours + np.float32(1e-3), serial, lambda: right)
    with pytest.raises(CheckError):
        compared("x", ours, serial, lambda: right + 1)  # a serial run that is as wrong allows nothing
    with pytest.raises(CheckError):
        compared("x", ours, serial, lambda: None)


def test_the_run_with_more_digits():
    text = """func.func @f(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>) {
  %c = arith.constant dense<[1.0, 0.1, 3.0]> : tensor<3xf32>
  %k = arith.constant dense<0.1> : tensor<f32>
  %0 = arith.mulf %x, %c : tensor<3xf32>
  return %0, %k : tensor<3xf32>, tensor<f32>
}"""
    from spmd_grid.dialect.execute.runner import FunctionRunner

    module, x = dialect.parse(text), np.float32([1 / 3, 0.7, 1e-3])
    kind = module.body.block.first_op.body.block.args[0].type
    serial = SerialRun(lambda typed: FunctionRunner(module).call("f", [typed(x, kind)]), 3)
    found, number = serial._wide
    assert found.dtype == np.float64 and number == np.float32(0.1)
    assert np.array_equal(found, x.astype("f8") * np.float32([1, 0.1, 3]).astype("f8"))
    assert serial.compared("x", serial._results[0], lambda every: every[0]) == "equal"
