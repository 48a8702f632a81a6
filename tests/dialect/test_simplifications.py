"""The dialect's own cases of canonical forms and simplifications.

Deviation: ``all_gather(all_slice(x))`` stays (`slice_then_ag`), since devices may hold different ``x``.
"""

import json
from pathlib import Path

import pytest

pytest.importorskip("xdsl")

from spmd_grid import dialect

CASES = json.loads((Path(__file__).parent / "dialect_cases.json").read_text())["cases"]
NAMES = {case["name"]: case for case in CASES if case["kind"] in ("canonicalize", "simplify", "static_shard_type")}

X, WIDE, THIN, LOW = "tensor<4x4xf32>", "tensor<4x8xf32>", "tensor<4x2xf32>", "tensor<1x4xf32>"
REDUCED = f"shard.all_reduce %x on @g grid_axes = [0] : {X} -> {X}"
REDUCED_Y = f"shard.all_reduce %y on @g grid_axes = [0] : {X} -> {X}"
CUT = f"on @g grid_axes = [0] slice_axis = 0 : {X} -> {LOW}"
GATHERED = f"shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : {X} -> {WIDE}"


def one(name, parts, arrow=True):
    """A collective of one device."""
    return [f"%0 = shard.{name} %x on @g {parts} : " + (f"{X} -> {X}" if arrow else f"({X}) -> {X}")]


# Case: the lines, and what they are afterwards; None for what stays.
PROGRAMS = {
    "empty_axes_identity_all_gather": (one("all_gather", "gather_axis = 0"), []),
    "empty_axes_identity_broadcast": (one("broadcast", "root = []", False), []),
    "empty_axes_identity_recv": (one("recv", "", False), []),
    "empty_axes_identity_scatter": (one("scatter", "scatter_dim = 0 root = []", False), []),
    "empty_axes_identity_send": (one("send", "destination = []", False), []),
    "empty_axes_kept_type_change": ([f"%0 = shard.all_reduce %x on @g : {X} -> tensor<4x4xf64>"], None),
    "halo_all_zero_canonical": (
        ["%0 = shard.sharding @g split_axes = [[0]] halo_sizes = [0, 0] : !shard.sharding"],
        ["%0 = shard.sharding @g split_axes = [[0]] : !shard.sharding"],
    ),
    "offsets_uniform_static": (
        ["%0 = shard.sharding @g split_axes = [[], [0]] sharded_dims_offsets = [0, 4, 8, 12, 16] : !shard.sharding"],
        ["%0 = shard.sharding @g split_axes = [[], [0]] : !shard.sharding"],
    ),
    "offsets_nonuniform_dynamic": (
        ["%0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 1, 4, 7, 8] : !shard.sharding"],
        None,
    ),
    "grid_shape_fold_partial": (
        ["%a, %b = shard.grid_shape @open axes = [2, 1] : index, index", "%0 = arith.addi %a, %b : index"],
        [
            "%a = arith.constant 2 : index",
            "%a_1, %b = shard.grid_shape @open axes = [2, 1] : index, index",
            "%0 = arith.addi %a, %b : index",
        ],
    ),
    "ag_then_slice": (
        [f"%w = {GATHERED}", f"%0 = shard.all_slice %w on @g grid_axes = [1] slice_axis = 1 : {WIDE} -> {X}"],
        [],
    ),
    "slice_then_ag": (
        [
            f"%w = shard.all_slice %x on @g grid_axes = [1] slice_axis = 1 : {X} -> {THIN}",
            f"%0 = shard.all_gather %w on @g grid_axes = [1] gather_axis = 1 : {THIN} -> {X}",
        ],
        None,
    ),
    "ag_slice_kept_other_tensor_dim": (
        [
            f"%w = {GATHERED}",
            f"%0 = shard.all_slice %w on @g grid_axes = [1] slice_axis = 0 : {WIDE} -> tensor<2x8xf32>",
        ],
        None,
    ),
    "ag_slice_kept_other_grid_axes": (
        [
            f"%w = {GATHERED}",
            f"%0 = shard.all_slice %w on @g grid_axes = [0] slice_axis = 1 : {WIDE} -> {THIN}",
        ],
        None,
    ),
    "allreduce_slice_sum": (
        [f"%r = {REDUCED}", f"%0 = shard.all_slice %r {CUT}"],
        [f"%0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 0 : {X} -> {LOW}"],
    ),
    "allreduce_slice_max": (
        [f"%r = {REDUCED.replace('[0]', '[0] reduction = max')}", f"%0 = shard.all_slice %r {CUT}"],
        [f"%0 = shard.reduce_scatter %x on @g grid_axes = [0] reduction = max scatter_dim = 0 : {X} -> {LOW}"],
    ),
    "allreduce_slice_dim1": (
        [
            f"%r = shard.all_reduce %x on @g grid_axes = [1] : {X} -> {X}",
            f"%0 = shard.all_slice %r on @g grid_axes = [1] slice_axis = 1 : {X} -> {THIN}",
        ],
        [f"%0 = shard.reduce_scatter %x on @g grid_axes = [1] scatter_dim = 1 : {X} -> {THIN}"],
    ),
    "allreduce_slice_type_promotion": (
        [
            f"%r = shard.all_reduce %x on @g grid_axes = [0] : {X} -> tensor<4x4xf64>",
            "%0 = shard.all_slice %r on @g grid_axes = [0] slice_axis = 0 : tensor<4x4xf64> -> tensor<1x4xf64>",
        ],
        [f"%0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 0 : {X} -> tensor<1x4xf64>"],
    ),
    "allreduce_slice_kept_other_grid": (
        [f"%r = {REDUCED}", f"%0 = shard.all_slice %r {CUT.replace('@g', '@h')}"],
        None,
    ),
    "allreduce_slice_kept_all_reduce_has_a_second_use": (
        [f"%r = {REDUCED}", f"%0 = shard.all_slice %r {CUT}", f"%1 = arith.addf %r, %y : {X}"],
        None,
    ),
    "allreduce_add_merge": (
        [f"%a = {REDUCED}", f"%b = {REDUCED_Y}", f"%0 = arith.addf %a, %b : {X}"],
        [f"%1 = arith.addf %x, %y : {X}", f"%0 = {REDUCED.replace('%x', '%1')}"],
    ),
    "allreduce_min_merge": (
        [
            f"%a = {REDUCED.replace('[0]', '[0] reduction = min')}",
            f"%b = {REDUCED_Y.replace('[0]', '[0] reduction = min')}",
            f"%0 = arith.minimumf %a, %b : {X}",
        ],
        [
            f"%1 = arith.minimumf %x, %y : {X}",
            f"%0 = {REDUCED.replace('%x', '%1').replace('[0]', '[0] reduction = min')}",
        ],
    ),
    "allreduce_merge_kept_different_grid": (
        [f"%a = {REDUCED}", f"%b = {REDUCED_Y.replace('@g', '@h')}", f"%0 = arith.addf %a, %b : {X}"],
        None,
    ),
    "allreduce_merge_kept_kinds_max_and_sum_under_addf": (
        [f"%a = {REDUCED}", f"%b = {REDUCED_Y.replace('[0]', '[0] reduction = max')}", f"%0 = arith.addf %a, %b : {X}"],
        None,
    ),
    "allreduce_merge_kept_one_all_reduce_used_twice": (
        [f"%a = {REDUCED}", f"%b = {REDUCED_Y}", f"%0 = arith.addf %a, %b : {X}", f"%1 = arith.addf %b, %y : {X}"],
        None,
    ),
}


def module_of(lines):
    """A function of the lines, in which something uses ``%0``, or ``%x`` where no line is left."""
    grids = "shard.grid @g(shape = 4x2)\nshard.grid @h(shape = 4x2)\nshard.grid @open(shape = 4x?x2)\n"
    body = "".join(f"  {line}\n" for line in lines)
    defined = [line for line in lines if line.startswith("%0 =")]
    kind = defined[0].rsplit("-> ", 1)[-1].rsplit(" : ", 1)[-1] if defined else X
    kept = f'  "spmd_grid.wait"({"%0" if defined else "%x"}) : ({kind}) -> ()\n'
    return dialect.parse(f"{grids}func.func @f(%x: {X}, %y: {X}) {{\n{body}{kept}  return\n}}\n")


def test_every_case_is_here():
    assert set(PROGRAMS) == set(NAMES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_cases(name):
    before, after = PROGRAMS[name]
    module = module_of(before)
    dialect.simplify(module)
    dialect.verify(module)
    wanted = module_of(before if after is None else after)
    assert module.is_structurally_equivalent(wanted), dialect.to_text(module)
