"""Texts of all stages of programs are read again and run, and equal numpy."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.programs import every_kind_of_list, every_kind_of_step, part_of_lists, part_of_steps
from support.dialect.random_modules import AnnotatedModule
from support.dialect.stages import check_stage
from support.program.runner import make_case
from support.sources import Source

import spmd_grid as sg
from spmd_grid.cli.main import main
from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.devices import pure_grids
from spmd_grid.dialect.partition.annotated import program_of
from spmd_grid.errors import ImplicitGatherError
from spmd_grid.program.text.stages import STAGES

GRIDS = [(2,), (3,), (2, 2), (2, 3)]


@cache
def accepted_case(seed):
    """A random program whose annotations do not contradict each other, and its partition."""
    for n in range(100):
        case = make_case([2, 3, 4][seed % 3], Source(23, seed, n))
        if not case.refusal:
            return case, case.partitions["optimised"]
    raise AssertionError("no random program is accepted")


@pytest.mark.parametrize("stage", STAGES)
def test_random_programs(spmd, stage, request):
    """Slices, scans, reshapes, halos, sums that are owed, on blocks of several extents."""
    for seed in range(200 if request.config.getoption("full") else 3):
        case, part = accepted_case(seed)
        check_stage(spmd, part, stage, case.arguments, case.want)


@pytest.mark.parametrize("stage", STAGES)
def test_random_modules(spmd, stage, request):
    """Annotated modules of the dialect, as --emit prints them."""
    for seed in range(100, 400 if request.config.getoption("full") else 103):
        shape = GRIDS[seed % len(GRIDS)]
        module = AnnotatedModule(seed, shape)
        text = parse(module.text, "random.mlir")
        grids = pure_grids(text, "main", int(np.prod(shape)))
        part = sg.partition(program_of(text, "main", grids, module.shapes, {}), grids["g"])
        check_stage(spmd, part, stage, module.arguments(), module.expected())


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("args", ["local", "global"])
def test_every_kind_of_step(spmd, stage, args):
    part = part_of_steps(args)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape) for shape in ((7, 5), (5, 4))]
    check_stage(spmd, part, stage, arrays, every_kind_of_step(*arrays))


@pytest.mark.parametrize("stage", STAGES)
def test_lists_of_indices(spmd, stage):
    part = part_of_lists()
    arrays = np.random.default_rng(3).standard_normal((7, 5)), np.array([4, 0, 3, 1, 1, 2, 0])
    check_stage(spmd, part, stage, arrays, every_kind_of_list(*arrays))


def test_a_call_of_pythons_is_refused_with_its_place(spmd):
    """The text of a call with a function of the user's does not hold that function."""
    grid = sg.Grid((2,))
    sharding = sg.Sharding(grid, [[0]])
    body = sg.manual(lambda block: block + 1, [sharding], sharding, [0])
    part = sg.partition(sg.trace(body, sg.ArraySpec((4,))), grid, sharding)
    with pytest.raises(ImplicitGatherError, match="spmd_grid.manual is a call of Python's"):
        check_stage(spmd, part, "partitioned", [np.arange(4.0)], [np.arange(1.0, 5.0)])


MODULE = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<7x3xf64>, %w: tensor<3x5xf64>) -> (tensor<7x5xf64>, tensor<7x5xf64>) {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %0 = shard.shard %x to %rows : tensor<7x3xf64>
  %zero = arith.constant dense<0.0> : tensor<7x5xf64>
  %1 = linalg.matmul ins(%0, %w : tensor<7x3xf64>, tensor<3x5xf64>) outs(%zero : tensor<7x5xf64>) -> tensor<7x5xf64>
  %2 = shard.shard %1 to %columns annotate_for_users : tensor<7x5xf64>
  %3 = math.tanh %2 : tensor<7x5xf64>
  return %1, %3 : tensor<7x5xf64>, tensor<7x5xf64>
}
"""


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_emitted_runs_from_a_file(stage, tmp_path, capsys):
    """Whole arrays in and out, also of stages that work on blocks, and of blocks that differ in extent."""
    first, second, out = tmp_path / "first.mlir", tmp_path / "second.mlir", tmp_path / "out.npy"
    first.write_text(MODULE)
    assert main(["run", str(first), "--emit", stage]) == 0
    second.write_text(capsys.readouterr().out)
    x, w = np.random.default_rng(0).standard_normal((7, 3)), np.random.default_rng(1).standard_normal((3, 5))
    for name, array in (("x", x), ("w", w)):
        np.save(tmp_path / f"{name}.npy", array)
    inputs = [word for name in ("x", "w") for word in ("--input", str(tmp_path / f"{name}.npy"))]
    outputs = ["--output", str(tmp_path / "unused.npy"), "--output", str(out)]
    assert main(["run", str(second), *inputs, *outputs, "--check", "serial", "--quiet"]) == 0
    np.testing.assert_allclose(np.load(out), np.tanh(x @ w))
    assert "result 1 against" in capsys.readouterr().out
