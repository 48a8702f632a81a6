"""A module under mpiexec, as users start it: inputs, outputs, the serial check, and a report of a hang."""

import sys

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.modules import EXAMPLES
from support.jobs import Job, mpi_command, needs_mpiexec

HANGING = """shard.grid @grid0(shape = 2)
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %i = shard.process_linear_index on @grid0 : index
  %c0 = arith.constant 0 : index
  %c = arith.cmpi eq, %i, %c0 : index
  %r = scf.if %c -> (tensor<2xf32>) {
    %1 = shard.all_reduce %x on @grid0 grid_axes = [0] : tensor<2xf32> -> tensor<2xf32>
    scf.yield %1 : tensor<2xf32>
  } else {
    scf.yield %x : tensor<2xf32>
  }
  %e = shard.recv %r on @grid0 grid_axes = [0] source = [0] : (tensor<2xf32>) -> tensor<2xf32>
  return %e : tensor<2xf32>
}
"""


def started(n, folder, *words, **environment):
    command, root = mpi_command()
    program = [*command, "-n", str(n), sys.executable, "-m", "spmd_grid", "run", *map(str, words)]
    return Job(program, folder, **root, **environment)


@needs_mpiexec
def test_inputs_outputs_and_the_serial_check(tmp_path):
    first, second = tmp_path / "first.npy", tmp_path / "second.npy"
    words = EXAMPLES / "mlp.mlir", "--input", "random:2x4x8xf32@7", "--input", "ones", "--check", "serial", "--quiet"
    job = started(2, tmp_path, *words, "--output", first)
    assert job.code == 0 and "@mlp: result 0 against the serial run: equal" in job.out, job
    x = np.random.default_rng(7).standard_normal((2, 4, 8)).astype("f4")
    rng = np.random.default_rng(2).standard_normal((32, 8)).astype("f4")
    due = np.maximum(x @ np.ones((8, 32), "f4"), 0) @ rng
    np.testing.assert_allclose(np.load(first), due, rtol=1e-4, atol=1e-3)
    local = EXAMPLES / "rfc.mlir", "--main", "partitioned", "--check", "serial", "--quiet", "--output", second
    job = started(2, tmp_path, *local)
    assert job.code == 0 and "all results are those of one process that computes all 2 devices" in job.out, job
    assert np.load(second).shape == (2, 2, 4, 4)


@needs_mpiexec
def test_a_hang_names_lines_of_the_module(tmp_path):
    path = tmp_path / "hanging.mlir"
    path.write_text(HANGING)
    job = started(2, tmp_path, path, SPMD_GRID_TIMEOUT="3")
    assert job.code != 0 and "hanging.mlir:7" in job.err and "hanging.mlir:12" in job.err, job
