"""Collectives of stablehlo, of processes that the text lists by number: the specification's numbers, and numpy's."""

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.modules import EXAMPLES

from spmd_grid.dialect import parse, to_text
from spmd_grid.dialect.execute.devices import EngineDevices, pure_grids
from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.process_groups import Processes, all_processes, groups_of, pairs_of
from spmd_grid.dialect.execute.reference import run_reference
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.errors import DialectError

SUM = """({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    %s = stablehlo.add %a, %b : tensor<i64>
    stablehlo.return %s : tensor<i64>
  })"""


def groups_text(groups, word="replica_groups"):
    width = max(map(len, groups))
    rows = [[*group, *[-1] * (width - len(group))] for group in groups]
    return f"{word} = dense<{rows}> : tensor<{len(rows)}x{width}xi64>"


def channel_text(channel, is_global=False):
    shown = f", channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>" if channel else ""
    return shown + (", use_global_device_ids" if is_global else "")


def module_text(name, parts, before, after, body="", processes=None):
    said = f"mhlo.num_replicas = {processes[0]} : i32, mhlo.num_partitions = {processes[1]} : i32" if processes else ""
    return (
        f"module attributes {{{said}}} {{\nfunc.func @main(%x: {before}) -> {after} {{\n"
        f'  %0 = "stablehlo.{name}"(%x) <{{{parts}}}> {body} : ({before}) -> {after}\n'
        f"  return %0 : {after}\n}}\n}}\n"
    )


def tensor(shape):
    return f"tensor<{''.join(f'{n}x' for n in shape)}i64>"


def run_module(text, arrays):
    module = parse(text, "hlo.mlir")
    devices = EngineDevices({})
    return FunctionRunner(module, devices).call("main", [np.array(arrays[devices.rank])])[0]


def check(spmd, text, arrays, due):
    """The engine, and all devices in one process, give what is due; the text is printed and read again."""
    printed = to_text(parse(text, "hlo.mlir"))
    assert parse(printed, "again.mlir").is_structurally_equivalent(parse(text, "hlo.mlir"))
    serial = run_reference(parse(text, "hlo.mlir"), "main", {}, [[np.array(x)] for x in arrays])
    for found, (alone,), wanted in zip(spmd(len(arrays), run_module, printed, arrays), serial, due, strict=True):
        assert found.tolist() == alone.tolist() == np.asarray(wanted).tolist()
        assert found.dtype == np.int64


GIVEN = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])]
WIDE = [np.array([[1, 2, 3, 4], [5, 6, 7, 8]]), np.array([[9, 10, 11, 12], [13, 14, 15, 16]])]
BOTH = groups_text([[0, 1]])
# The specification's examples: name, parts, the operands by process, the body, the results by process.
EXAMPLES_OF_SPECIFICATION = {
    "all_gather": ("all_gather_dim = 1 : i64, " + BOTH, GIVEN, "", [[[1, 2, 5, 6], [3, 4, 7, 8]]] * 2),
    "all_reduce": (BOTH, [np.array([1, 2, 3, 4]), np.array([5, 6, 7, 8])], SUM, [[6, 8, 10, 12]] * 2),
    "reduce_scatter": (
        "scatter_dimension = 1 : i64, " + BOTH,
        WIDE,
        SUM,
        [[[10, 12], [18, 20]], [[14, 16], [22, 24]]],
    ),
    "all_to_all": (
        "split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, " + BOTH,
        WIDE,
        "",
        [[[1, 2], [5, 6], [9, 10], [13, 14]], [[3, 4], [7, 8], [11, 12], [15, 16]]],
    ),
    "collective_broadcast": (
        groups_text([[2, 1]]),
        [np.array([[1, 2]]), np.array([[3, 4]]), np.array([[5, 6]]), np.array([[7, 8]])],
        "",
        [[[0, 0]], [[5, 6]], [[5, 6]], [[0, 0]]],
    ),
    "collective_permute": (
        groups_text([[0, 1], [1, 2]], "source_target_pairs"),
        [*GIVEN, np.array([[9, 10], [11, 12]])],
        "",
        [[[0, 0], [0, 0]], [[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES_OF_SPECIFICATION)
def test_the_examples_of_the_specification(spmd, name):
    parts, given, body, due = EXAMPLES_OF_SPECIFICATION[name]
    check(spmd, module_text(name, parts, tensor(given[0].shape), tensor(np.shape(due[0])), body), given, due)


@pytest.mark.parametrize("seed", range(3))
def test_groups_in_any_order_and_of_any_processes(spmd, seed):
    """Groups that are no group of a grid's axes, against numpy."""
    chance = np.random.default_rng(seed)
    n, rows = 6, [3, 2, 1][seed]
    groups = chance.permutation(n).reshape(rows, -1).tolist()
    size = n // rows
    given = [chance.integers(-99, 99, (2, 2 * size)) for _ in range(n)]
    mates = [next(group for group in groups if process in group) for process in range(n)]
    parts = groups_text(groups) + channel_text(1, True)
    sums = [sum(given[i] for i in group) for group in mates]
    check(spmd, module_text("all_reduce", parts, tensor((2, 2 * size)), tensor((2, 2 * size)), SUM), given, sums)
    wide = [np.concatenate([given[i] for i in group], 1) for group in mates]
    gather = "all_gather_dim = 1 : i64, " + parts
    check(spmd, module_text("all_gather", gather, tensor((2, 2 * size)), tensor((2, 2 * size**2))), given, wide)
    pieces = [np.split(total, size, 1)[group.index(i)] for i, (total, group) in enumerate(zip(sums, mates))]
    scatter = "scatter_dimension = 1 : i64, " + parts
    check(spmd, module_text("reduce_scatter", scatter, tensor((2, 2 * size)), tensor((2, 2)), SUM), given, pieces)


def test_shorter_groups_are_filled_up(spmd):
    given = [np.array([10**n]) for n in range(3)]
    text = module_text("all_reduce", groups_text([[2, 0], [1]]), tensor((1,)), tensor((1,)), SUM)
    check(spmd, text, given, [[101], [10], [101]])


def operation(name, parts, processes=None):
    module = parse(module_text(name, parts, "tensor<12xi64>", "tensor<12xi64>", SUM, processes), "hlo.mlir")
    return next(each for each in module.walk() if each.name == f"stablehlo.{name}")


def test_the_ways_in_which_processes_are_numbered():
    """The specification's four ways; groups by the number replica * partitions + partition."""
    two, both = groups_text([[0, 1], [2, 3]]), Processes(4, 2)
    assert groups_of(operation("all_reduce", two), both) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert groups_of(operation("all_reduce", two + channel_text(1)), both) == [(0, 2, 1, 3), (4, 6, 5, 7)]
    flat = groups_text([[0, 1, 2, 3], [4, 5, 6, 7]]) + channel_text(1, True)
    assert groups_of(operation("all_reduce", flat), both) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    split = f"split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {BOTH}"
    text = module_text("all_to_all", split + channel_text(1), "tensor<12xi64>", "tensor<12xi64>")
    (crossing,) = [each for each in parse(text).walk() if each.name == "stablehlo.all_to_all"]
    assert groups_of(crossing, both) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    pairs = groups_text([[0, 1]], "source_target_pairs")
    text = module_text("collective_permute", pairs, "tensor<12xi64>", "tensor<12xi64>")
    (permute,) = [each for each in parse(text).walk() if each.name == "stablehlo.collective_permute"]
    assert pairs_of(permute, both) == [(0, 2), (1, 3)]


def test_the_grid_of_processes_is_said_or_follows():
    assert all_processes(operation("all_reduce", BOTH, (2, 3)), 6) == Processes(2, 3)
    assert all_processes(operation("all_reduce", BOTH), 6) == Processes(2, 3)
    assert all_processes(operation("all_reduce", BOTH + channel_text(1, True)), 2) == Processes(2, 1)
    with pytest.raises(ExecutionError, match=r"hlo.mlir:1:1: the module has 2 replicas and 3 partitions; there are 4"):
        all_processes(operation("all_reduce", BOTH, (2, 3)), 4)
    with pytest.raises(ExecutionError, match=r"hlo.mlir:3:8: .*replica_groups has \[\[0, 1\]\]; there are 3 replicas"):
        groups_of(operation("all_reduce", BOTH), Processes(3, 1))


def test_the_rfcs_perceptron_on_blocks_is_that_on_whole_arrays(spmd):
    """The last stage of the RFC's example, whose communication is mhlo's, against its first, by numpy."""
    chance = np.random.default_rng(0)
    x, a, b = (chance.standard_normal(shape).astype("f4") for shape in ((2, 4, 8), (8, 32), (32, 8)))
    blocks = list(zip(np.split(x, 2, 2), np.split(a, 2, 1), np.split(b, 2, 0)))
    found = spmd(2, run_of_rfc, "partitioned", blocks)
    due = np.maximum(x @ a, 0) @ b
    np.testing.assert_allclose(np.concatenate(found, 2), due, rtol=1e-4, atol=1e-4)


def run_of_rfc(function, blocks):
    module = parse((EXAMPLES / "rfc.mlir").read_text(), "rfc.mlir")
    devices = EngineDevices(pure_grids(module, function, 2))
    return FunctionRunner(module, devices).call(function, list(blocks[devices.rank]))[0]


def test_each_device_cuts_its_own_block(spmd):
    """The RFC's way for arguments that are whole on every device."""
    whole = np.arange(8, dtype="f4")
    found = spmd(2, run_of_rfc, "cut", [[whole], [whole]])
    assert [x.tolist() for x in found] == [[0, 1, 2, 3], [4, 5, 6, 7]]


REFUSED = {
    "a process twice": (groups_text([[0, 1], [1, 2]]), r"replica_groups must have every process once, found 1 again"),
    "one dimension": ("replica_groups = dense<[0, 1]> : tensor<2xi64>", r"replica_groups must have 2 dimensions"),
    "a hole": ("replica_groups = dense<[[-1, 0]]> : tensor<1x2xi64>", r"-1 after those of shorter groups alone"),
    "no channel": (BOTH + channel_text(0, True), r"use_global_device_ids needs a channel above 0, found 0"),
    "fractions": ("replica_groups = dense<[[0.5, 1.5]]> : tensor<1x2xf32>", r"must have whole numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_groups_that_are_refused(case):
    parts, words = REFUSED[case]
    text = module_text("all_reduce", parts, "tensor<4xi64>", "tensor<4xi64>", SUM)
    with pytest.raises(DialectError, match=rf"^hlo.mlir:3:8: .*{words}"):
        parse(text, "hlo.mlir")


WRONG_TYPES = {
    "all_gather": ("all_gather_dim = 0 : i64, " + BOTH, "tensor<4xi64>", "tensor<7xi64>", ""),
    "reduce_scatter": ("scatter_dimension = 0 : i64, " + BOTH, "tensor<5xi64>", "tensor<2xi64>", SUM),
    "all_to_all": (
        "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 3 : i64, " + BOTH,
        *("tensor<6xi64>", "tensor<6xi64>", ""),
    ),
    "all_reduce": (BOTH, "tensor<4xi64>", "tensor<4xi32>", SUM),
    "collective_permute": (
        groups_text([[0, 1], [2, 1]], "source_target_pairs"),
        *("tensor<4xi64>", "tensor<4xi64>", ""),
    ),
    "collective_broadcast": (BOTH, "tensor<4xi64>", "tensor<4xf64>", ""),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_types_that_are_refused(name):
    parts, before, after, body = WRONG_TYPES[name]
    with pytest.raises(DialectError, match=r"^hlo.mlir:3:8: "):
        parse(module_text(name, parts, before, after, body), "hlo.mlir")


def test_numbers_of_processes_are_unsigned():
    for name in ("replica_id", "partition_id"):
        with pytest.raises(DialectError, match=r"^hlo.mlir:2:8: .*must be tensor<ui32>"):
            parse(f"func.func @f() {{\n  %0 = stablehlo.{name} : tensor<i32>\n  return\n}}", "hlo.mlir")
