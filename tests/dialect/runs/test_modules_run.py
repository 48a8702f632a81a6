"""Modules run: the examples against their serial meaning, and the documentation's numbers."""

import sys

import numpy as np
import pytest
from support.dialect.modules import EXAMPLES, functions_of, run_quietly

import spmd_grid as sg
from spmd_grid.cli.main import main

CASES = [(path.name, function) for path in sorted(EXAMPLES.glob("*.mlir")) for function in functions_of(path)]
# What the documentation draws, by device.
DRAWN = {
    "all_gather": [[[1, 2, 5, 6], [3, 4, 7, 8]]] * 2 + [[[9, 10, 13, 14], [11, 12, 15, 16]]] * 2,
    "all_slice": [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]], [[13, 14], [15, 16]]],
    "broadcast": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]] * 2,
    "gather": [None, [[1, 2, 5, 6], [3, 4, 7, 8]], None, [[9, 10, 13, 14], [11, 12, 15, 16]]],
    "scatter": [[[9, 10]], [[13, 14]], [[11, 12]], [[15, 16]]],
    "all_reduce": [[[252, 288], [324, 104]]] * 4,
    "reduce": [None, None, [[585, 1680], [3465, 6144]], None],
    "reduce_scatter": [[[6, 8]], [[10, 12]], [[22, 24]], [[26, 28]]],
}


@pytest.mark.parametrize(("file", "function"), CASES)
def test_examples_are_as_their_serial_meaning(spmd, file, function):
    n = 3 if file == "ring.mlir" else functions_of(EXAMPLES / file)[function]
    spmd(n, run_quietly, EXAMPLES / file, function, True)


@pytest.mark.parametrize("function", ["all_gather", "all_slice", "broadcast", "gather", "scatter", "reduce_scatter"])
def test_results_are_those_that_the_documentation_draws(spmd, function):
    found = spmd(4, run_quietly, EXAMPLES / "collectives.mlir", function)
    for (result,), drawn in zip(found, DRAWN[function]):
        if drawn is None:
            assert str(result).startswith("undefined: shard.gather gives its result to the root [1] only")
        else:
            assert result.tolist() == drawn


def test_a_rotation_by_one_goes_up(spmd):
    found = spmd(8, run_quietly, EXAMPLES / "shift.mlir", None)
    assert [results[0].tolist() for results in found] == [[3], [4], [1], [2], [7], [8], [5], [6]]
    assert [results[1].tolist() for results in found] == [[4], [1], [2], [3], [8], [5], [6], [7]]
    assert [str(results[2])[:9] for results in found][::4] == ["undefined"] * 2


@pytest.fixture
def text_file(tmp_path):
    def write(text, name="program.mlir"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


LOCAL = """shard.grid @grid0(shape = 2x2)
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %i = shard.process_linear_index on @grid0 : index
  %c0 = arith.constant 0 : index
  %c = arith.cmpi eq, %i, %c0 : index
  %r = scf.if %c -> (tensor<2x3xf32>) {{
    %1 = {first}
    scf.yield %1 : tensor<2x3xf32>
  }} else {{
    %1 = {second}
    scf.yield %1 : tensor<2x3xf32>
  }}
  return %r : tensor<2x3xf32>
}}
"""
REDUCE = "shard.all_reduce %x on @grid0 grid_axes = [0] : tensor<2x3xf32> -> tensor<2x3xf32>"
MAXIMUM = "shard.all_reduce %x on @grid0 grid_axes = [0] reduction = max : tensor<2x3xf32> -> tensor<2x3xf32>"
SHIFT = "shard.shift %x on @grid0 grid_axes = [0] shift_axis = 0 offset = 1 rotate : tensor<2x3xf32> -> tensor<2x3xf32>"


def test_mismatches_name_lines_of_the_text(text_file):
    path = text_file(LOCAL.format(first=REDUCE, second=SHIFT))
    with pytest.raises(sg.SpmdError) as caught:
        sg.run_spmd(run_quietly, path, None, ranks=4)
    assert "all_reduce" in str(caught.value) and "program.mlir:7" in str(caught.value)
    assert "shift" in str(caught.value) and "program.mlir:10" in str(caught.value)


def test_deadlocks_name_lines_of_the_text(text_file):
    receive = "shard.recv %x on @grid0 grid_axes = [0] source = [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>"
    path = text_file(LOCAL.format(first=receive, second=receive))
    with pytest.raises(sg.DeadlockError, match="program.mlir:7(.|\n)*program.mlir:10"):
        sg.run_spmd(run_quietly, path, None, ranks=4)


def test_undefined_results_are_refused_by_communication(text_file):
    path = text_file(
        """shard.grid @grid0(shape = 2)
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %1 = shard.gather %x on @grid0 grid_axes = [0] gather_axis = 0 root = [0] : (tensor<2xf32>) -> tensor<4xf32>
  %2 = arith.negf %1 : tensor<4xf32>
  %3 = shard.all_reduce %2 on @grid0 grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""
    )
    with pytest.raises(sg.DialectError, match=r"program.mlir:5:8: shard.all_reduce: its operand is undefined: shard.g"):
        sg.run_spmd(run_quietly, path, None, ranks=2)


def test_a_check_can_fail():
    from spmd_grid.dialect.execute.faults import CheckError
    from spmd_grid.dialect.running.checking import compared

    x = np.array([1.0, 2.0, np.nan])
    assert compared("x", x, x) == "equal"
    assert compared("x", x * (1 + 3e-16), x).startswith("equal but for rounding")
    with pytest.raises(CheckError, match=r"x differs from the serial run in 1 of 3 cells: cell \(1,\) is 3.0, and 2.0"):
        compared("x", np.array([1.0, 3.0, np.nan]), x)
    with pytest.raises(CheckError, match="in 1 of 2 cells"):
        compared("x", np.array([1, 2]), np.array([1, 3]))
    with pytest.raises(CheckError, match="shape"):
        compared("x", np.zeros(2), np.zeros(3))


# -- the command line ----------------------------------------------------------------------------------------------


def command(*words):
    return main(["run", *map(str, words)])


def test_files_in_and_out(tmp_path, capsys):
    a, b, init = tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "init.npy"
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in ((4, 6), (6, 8), (4, 8))]
    for path, x in zip((a, b, init), arrays):
        np.save(path, x)
    out = tmp_path / "out.npy"
    inputs = [word for path in (a, b, init) for word in ("--input", path)]
    file = EXAMPLES / "partition.mlir"
    assert command(file, "--main", "matmul_sums", *inputs, "--output", out, "--check", "serial", "--quiet") == 0
    assert np.allclose(np.load(out), arrays[0] @ arrays[1] + arrays[2], atol=1e-5)
    printed = capsys.readouterr().out
    assert "@matmul_sums: result 0 against the serial run: equal" in printed


def test_arrays_of_all_devices_in_and_out(tmp_path, capsys):
    out, blocks = tmp_path / "out.npz", tmp_path / "blocks.npy"
    assert command(EXAMPLES / "collectives.mlir", "--main", "gather", "--output", out) == 0
    with np.load(out) as found:
        assert sorted(found) == ["0,1", "1,1"] and found["0,1"].tolist() == DRAWN["gather"][1]
    assert "result 0 on device (1, 0):\nundefined" in capsys.readouterr().out
    x = np.arange(6.0).reshape(3, 2)
    np.save(blocks, x)
    ring = EXAMPLES / "ring.mlir"
    assert command("-n", 3, ring, "--input", blocks, "--output", blocks, "--quiet") == 0
    assert np.load(blocks).tolist() == [x.sum(0).tolist()] * 3


def test_stages_are_printed(capsys):
    assert command(EXAMPLES / "resharding.mlir", "--main", "swap", "--emit", "traced") == 0
    traced = capsys.readouterr().out
    assert "shard.shard %arg0 to %sharding : tensor<12x12xi32>" in traced
    assert command(EXAMPLES / "resharding.mlir", "--main", "swap", "--emit", "partitioned") == 0
    assert "tensor<6x4xi32>" in capsys.readouterr().out


def test_values_are_printed_with_their_lines(capsys):
    assert command(EXAMPLES / "all_to_all.mlir", "--print-values", "--quiet") == 0
    printed = capsys.readouterr().out
    assert "all_to_all.mlir:11: %1 on (2,): tensor<3x2xi8> = [[15, 16], [25, 26], [35, 36]]" in printed
    assert command(EXAMPLES / "resharding.mlir", "--main", "order", "--print-values", "--quiet") == 0
    assert "[[1, 0]]" in capsys.readouterr().out


def test_what_the_compiler_would_have_done(capsys):
    assert command(EXAMPLES / "resharding.mlir", "--main", "to_a_lower_dimension", "--quiet") == 0
    noted = capsys.readouterr().err
    assert "all_slice grid_axes = [0] slice_axis = 0; all_gather grid_axes = [0] gather_axis = 1" in noted
    assert "WRONG DATA" in noted and "resharding.mlir:" in noted


REFUSED = {
    "no function": (["--main", "nobody"], "there is no function @nobody; the functions of the module are @main"),
    "ranks": (["-n", 2], "grid @grid0 is 3, and there are 2 processes"),
    "inputs": (["--input", "ones"], "1 inputs are given; the function takes 0"),
    "outputs": (["--output", "a.npy", "--output", "b.npy", "--output", "c.npy"], "3 outputs are given"),
    "stage": (["--emit", "traced"], "@main has local types and no shard.shard"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, capsys):
    options, words = REFUSED[case]
    before = options if options[:1] == ["-n"] else []
    after = [] if before else options
    assert command(*before, EXAMPLES / "all_to_all.mlir", *after) != 0
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("missing.npy", "missing.npy is not read"),
        ("random:2x2xq7", "element type q7"),
        ("random:4x7xf32", "argument 0 has shape (4, 7); it must be tensor<6x6xi32>"),
        ("random:6x6xf32", "argument 0 has element type float32; it must be tensor<6x6xi32>"),
        ("something", "input 0 is 'something'; it must be a .npy file, a number of type int32, or random"),
        ("3", "argument 0 has shape ()"),
        ("random:99999x99999xi32", "9999800001 cells"),
    ],
)
def test_inputs_that_are_refused(spec, words, capsys):
    file = EXAMPLES / "resharding.mlir"
    assert command(file, "--main", "to_a_lower_dimension", "--input", spec) == 1
    assert words in capsys.readouterr().err


def test_malformed_files_are_one_line(text_file, capsys):
    assert command(text_file("func.func @f( {")) == 2
    assert "program.mlir:1:" in capsys.readouterr().err
    path = text_file("")
    path.write_bytes(b"\xff\xfe\x00")
    assert command(path) == 2
    assert "is not text" in capsys.readouterr().err


def test_a_python_program_needs_ranks(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "app.py"])
    assert ended.value.code == 2
    assert "the following arguments are required: -n/--ranks" in capsys.readouterr().err


def test_without_xdsl_a_run_says_what_to_install(monkeypatch, capsys):
    for name in [each for each in sys.modules if each.partition(".")[0] == "xdsl" or "spmd_grid.dialect" in each]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "xdsl", None)
    assert command(EXAMPLES / "ring.mlir") == 2
    assert "the extra [mlir] installs it" in capsys.readouterr().err


def test_a_ring_does_not_depend_on_timing(capsys):
    assert main(["run", "-n", "3", "--seeds", "4", str(EXAMPLES / "ring.mlir"), "--check", "serial"]) == 0
    assert "all runs print the same" in capsys.readouterr().out
