"""Constants that annotations cut, also in functions without arrays as arguments: whole results, at every stage."""

import re

import numpy as np
import pytest

pytest.importorskip("xdsl")

from spmd_grid.cli.main import main
from spmd_grid.program.text.stages import STAGES

HEAD = """shard.grid @g(shape = 2x2)
func.func @f({argument}) -> ({kinds}) {{
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]> : tensor<3x3xf32>
  %d = shard.shard %c to %s : tensor<3x3xf32>
{body}}}
"""
ONE = "tensor<3x3xf32>"
FUNCTIONS = {
    "no arguments": HEAD.format(argument="", kinds=ONE, body=f"  return %d : {ONE}\n"),
    "a number": HEAD.format(
        argument="%k: f32",
        kinds=ONE,
        body=f"  %p = tensor.splat %k : {ONE}\n  %r = arith.mulf %d, %p : {ONE}\n  return %r : {ONE}\n",
    ),
    "a number as a result": HEAD.format(
        argument="", kinds=f"{ONE}, f32", body=f"  %k = arith.constant 7.0 : f32\n  return %d, %k : {ONE}, f32\n"
    ),
    "beside an array": HEAD.format(
        argument=f"%x: {ONE}",
        kinds=f"{ONE}, {ONE}",
        body=f"  %a = shard.shard %x to %s : {ONE}\n  return %a, %d : {ONE}, {ONE}\n",
    ),
}
DUE = np.arange(1, 10, dtype="f4").reshape(3, 3)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("stage", [None, *STAGES])
def test_results_are_whole(name, stage, tmp_path, capsys):
    path, out = tmp_path / "program.mlir", tmp_path / "out.npy"
    path.write_text(FUNCTIONS[name])
    given = ["--input", "2"] if name == "a number" else ["--input", "ones"] if name == "beside an array" else []
    if stage is not None:
        assert main(["run", str(path), *given, "--emit", stage]) == 0
        path.write_text(capsys.readouterr().out)
        given = given if name == "beside an array" else []  # a number is in the text
    outputs = ["--output", str(tmp_path / "unused.npy")] * (name == "beside an array") + ["--output", str(out)]
    assert main(["run", str(path), *given, *outputs, "--check", "serial"]) == 0
    assert re.search("result 0 against the .*: equal", capsys.readouterr().out)
    assert np.array_equal(np.load(out), DUE * (2 if name == "a number" else 1))


def test_values_are_shown_whole(tmp_path, capsys):
    path = tmp_path / "program.mlir"
    path.write_text(FUNCTIONS["no arguments"])
    assert main(["run", str(path), "--print-values", "--quiet"]) == 0
    assert "[[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]]" in capsys.readouterr().out


def test_a_block_of_another_shape_is_no_part_of_a_whole(tmp_path, capsys):
    """The text says that its result is cut, and gives all of it on every device."""
    path = tmp_path / "program.mlir"
    path.write_text(
        """shard.grid @g(shape = 2)
func.func @f() -> tensor<4xf32> attributes {spmd_grid.grid = @g, spmd_grid.sources = [],
    spmd_grid.targets = [tensor<4xf32, {split_axes = [[0]]}>]} {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %c : tensor<4xf32>
}
"""
    )
    assert main(["run", str(path)]) == 1
    assert "the block of device (0,) has shape (4,); it must be (2,)" in capsys.readouterr().err
