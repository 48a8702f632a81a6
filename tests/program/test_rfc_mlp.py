"""The RFC's end-to-end example through all its stages, from either kind of annotation."""

import re

import pytest
from support.program.whole_programs import (
    MLP_SHAPES,
    annotated_mlp,
    mlp,
    mlp_with_option,
    random_arrays,
    run_and_compare,
)

import spmd_grid as sg


def partitioned(kind, n, **options):
    grid = sg.Grid((n,))
    specs = [sg.ArraySpec(shape, "f4") for shape in MLP_SHAPES]
    if kind == "tensors":
        return sg.partition(sg.trace(annotated_mlp(grid), *specs), grid, **options)
    program = sg.trace(mlp_with_option(grid), *specs)
    return sg.partition(program.mutate("y", [[], [], [], [0]]), grid, **options)


KINDS = pytest.mark.parametrize("kind", ["tensors", "operations"])
SIZES = pytest.mark.parametrize("n", [2, 8])


@KINDS
@SIZES
def test_shardings_and_collectives(kind, n):
    """1-d weight stationary: an all_gather, a reduce_scatter, and (n - 1) / n of the activations in each."""
    part = partitioned(kind, n)
    shardings = [part.sharding_of(name).split_axes for name in ("x", "w1", "w2", "h")]
    assert shardings == [((), (), (0,)), ((), (0,)), ((0,),), ((), (), (0,))]
    moved = 2 * 4 * 8 * 4 * (n - 1) // n
    assert part.collectives() == [("all_gather", (0,), moved), ("reduce_scatter", (0,), moved)]
    assert [each.split_axes for each in part.out_shardings] == [((), (), (0,))]


@KINDS
@SIZES
def test_it_runs_as_numpy_does(spmd, kind, n):
    part = partitioned(kind, n)
    arrays = random_arrays(*MLP_SHAPES, dtype="f4")
    spmd(n, lambda: run_and_compare(part, mlp, arrays, 1e-5))


@KINDS
def test_text_when_traced(kind):
    text = partitioned(kind, 2).text("traced")
    assert text.startswith("shard.grid @grid0(shape = 2)\n\nfunc.func @mlp(%x: tensor<2x4x8xf32>, ")
    assert "%sharding = shard.sharding @grid0 split_axes = [[], [], [0]] : !shard.sharding" in text
    assert re.search(r"shard\.shard %x to %sharding : tensor<2x4x8xf32>", text)
    assert re.search(r"shard\.shard %\w+ to %sharding annotate_for_users : tensor<2x4x8xf32>", text)
    if kind == "tensors":
        assert "split_axes = [[]] {spmd_grid.partial_axes = [0]}" in text
        assert "spmd_grid.sharding = " not in text
    else:
        assert text.count("call @numpy.matmul$1(%h, %w2) {spmd_grid.sharding = [[], [], [], [0]]}") == 1


@KINDS
def test_text_when_annotated(kind):
    """Every value and every use has a sharding; the RFC's completion is the same, but for its numbering."""
    text = partitioned(kind, 2).text("annotated")
    calls = re.findall(r"call @(numpy\.\w+)[$\d]*\((%\w+), (%\w+)\) \{spmd_grid\.sharding = (.*)\} :", text)
    assert [(name, cut) for name, _, _, cut in calls] == [
        ("numpy.matmul", "[[], [], [0]]"),
        ("numpy.maximum", "[[], [], [0]]"),
        ("numpy.matmul", "[[], [], [], [0]]"),
    ]
    whole, rows = (
        re.search(rf"(%sharding\w*) = .*split_axes = {axes} :", text)[1] for axes in (r"\[\[\]\]", r"\[\[0\]\]")
    )
    # The first product takes x whole, the second the rows of w2.
    assert f"{calls[0][1]} = shard.shard %0 to {whole} annotate_for_users" in text
    assert re.search(rf"{calls[2][2]} = shard\.shard %\w+ to {rows} annotate_for_users : tensor<32x8xf32>", text)


@KINDS
def test_text_when_materialised(kind):
    text = partitioned(kind, 2).text("materialised")
    split = "tensor<2x4x8xf32, {split_axes = [[], [], [0]]}>"
    gathered = f"grid_axes = [0], gather_axis = 2}} : ({split}) -> tensor<2x4x8xf32>"
    assert f"call @all_gather(%x) {{grid = @grid0, {gathered}" in text.replace("spmd_grid.", "")
    assert "tensor<8x32xf32, {split_axes = [[], [0]]}>" in text and "tensor<32x8xf32, {split_axes = [[0]]}>" in text
    partial = "tensor<2x4x8xf32, {split_axes = [[]], partial_axes = [0]}>"
    scattered = f'grid_axes = [0], reduction = "sum", scatter_dim = 2}} : ({partial}) -> {split}'
    assert f"call @reduce_scatter(%y) {{grid = @grid0, {scattered}" in text.replace("spmd_grid.", "")


@KINDS
def test_text_when_partitioned(kind):
    for stage in ("partitioned", "optimised"):
        text = partitioned(kind, 2).text(stage)
        assert "@mlp(%x: tensor<2x4x4xf32>, %w1: tensor<8x16xf32>, %w2: tensor<16x8xf32>) -> tensor<2x4x4xf32>" in text
        assert (
            "all_gather %x on @grid0 grid_axes = [0] gather_axis = 2 : tensor<2x4x4xf32> -> tensor<2x4x8xf32>" in text
        )
        assert re.search(
            r"call @numpy.matmul\(%\w+, %w1\) .*: \(tensor<2x4x8xf32>, tensor<8x16xf32>\) -> tensor<2x4x16xf32>", text
        )
        assert re.search(r"reduce_scatter .* : tensor<2x4x8xf32> -> tensor<2x4x4xf32>", text)


def test_text_with_whole_arguments():
    """The RFC's second form: arguments are sliced by the index of the process."""
    text = partitioned("tensors", 2, args="global").text("optimised")
    assert "@mlp(%x: tensor<2x4x8xf32>, %w1: tensor<8x32xf32>, %w2: tensor<32x8xf32>) -> tensor<2x4x4xf32>" in text
    index = re.search(r"(%\w+) = shard\.process_multi_index on @grid0 axes = \[0\] : index", text)[1]
    start = re.search(rf"(%\w+) = arith\.muli {index}, %c4 : index", text)[1]
    sliced = f"tensor.extract_slice %x[0, 0, {start}] [2, 4, 4] [1, 1, 1] : tensor<2x4x8xf32> to tensor<2x4x4xf32>"
    assert sliced in text


def test_whole_arguments_run(spmd):
    part = partitioned("operations", 2, args="global")
    arrays = random_arrays(*MLP_SHAPES, dtype="f4")

    def body():
        found = part.run(sg.init_grid((2,)), *arrays)
        return float(abs(found - mlp(*arrays)[..., 4 * sg.init_grid((2,)).coords[0] :][..., :4]).max())

    assert max(spmd(2, body)) < 1e-5


def test_unknown_stages_are_refused():
    with pytest.raises(sg.ShardingError, match="stage is 'linked'; it must be one of traced, annotated"):
        partitioned("tensors", 2).text("linked")
