"""The model of the compiler's resharding, beside what its partition pass prints, and the data that this gives."""

import re
from collections import Counter
from itertools import permutations, product
from math import prod

import numpy as np

import spmd_grid as sg
from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.layouts import block_of, whole_of
from spmd_grid.dialect.execute.reference import run_reference
from spmd_grid.dialect.execute.runner import function_of
from spmd_grid.dialect.partition.upstream import upstream_of
from spmd_grid.dialect.syntax.shard.shardings import ShardOp
from spmd_grid.grid.layout import Layout
from support.dialect.case_texts import resharding_text, sizes_text

PASS = "--pass-pipeline=builtin.module(func.func(shard-partition))"
SMALL = [((2,), 1), ((3,), 2), ((2,), 3)]  # grids, and the ranks of tensors on them
STEP = re.compile(r"shard\.(all_gather|all_slice|all_to_all) %\S+ on @g (grid_axes = \[[\d, ]*\] .*?) :")


def all_lists(grid, rank):
    """All lists of grid axes by dimension; an axis splits one at most."""
    axes = range(len(grid))
    for number in range(len(grid) + 1):
        for order in permutations(axes, number):
            for dims in product(range(rank), repeat=number):
                if [*zip(dims, order)] == sorted(zip(dims, order), key=lambda pair: pair[0]):
                    yield [[axis for dim, axis in zip(dims, order) if dim == d] for d in range(rank)]


def all_pairs(grid, rank):
    """All pairs of different shardings."""
    lists = list(all_lists(grid, rank))
    return [(a, b) for a, b in product(lists, lists) if a != b]


def compiled(compiler, grid, shape, source, target):
    """The collectives that the compiler's pass makes of a resharding, and whether their data are right; or None."""
    case = {"name": "f", "grid": list(grid), "shape": list(shape), "from": source, "to": target}
    answer = compiler.answer(f"shard.grid @g(shape = {sizes_text(grid)})\n{resharding_text(case)}", PASS)
    if not answer.is_taken:
        return None
    pure = sg.Grid(grid)
    layouts = [Layout(sg.Sharding(pure, each), tuple(shape)) for each in (source, target)]
    whole = np.arange(prod(shape), dtype="i4").reshape(shape)
    blocks = [[block_of(whole, layouts[0], n)] for n in range(pure.size)]
    found = run_reference(parse(answer.text), "f", {"g": pure}, blocks)
    is_right = np.array_equal(whole_of([results[0] for results in found], layouts[1]), whole)
    steps = [f"{name} {' '.join(words.split())}" for name, words in STEP.findall(answer.text)]
    return "; ".join(steps), is_right


def propagated(compiler, text):
    """The shardings that the compiler's propagation finds of the arguments and of what is returned; None of others."""
    answer = compiler.answer(text, "--pass-pipeline=builtin.module(func.func(sharding-propagation))")
    assert answer.is_taken, answer.error
    block = function_of(parse(answer.text), None).regions[0].block

    def lists(annotation):
        found = [list(axes) for axes in annotation.sharding.owner.dims] if isinstance(annotation, ShardOp) else None
        while found and not found[-1]:
            found.pop()
        return found if found is None else found or [[]]

    of_arguments = [lists(next((use.operation for use in x.uses), None)) for x in block.args]
    return of_arguments, [lists(x.owner) for x in block.last_op.operands]


def compared_reshardings(compiler, cases=SMALL):
    """Print how the pass and the model agree on all pairs; returns the number of pairs on which they do not.

    LLVM 22 takes grids of one axis alone, and looks for a move before it slices: where it moves an axis to a lower
    dimension, LLVM 23, which the model is of, slices and gathers, and gets the data wrong.
    """
    wrong = 0
    for grid, rank in cases:
        counts = Counter()
        shape = (prod(grid) * 2,) * rank
        pure = sg.Grid(grid)
        for source, target in all_pairs(grid, rank):
            model = upstream_of(sg.Sharding(pure, source), sg.Sharding(pure, target), shape)
            found = compiled(compiler, grid, shape, source, target)
            steps = "; ".join(map(str, model.steps))
            if found is None or model.refusal:
                counts[
                    f"{'refused' if found is None else 'done'} by it, {'refused' if model.refusal else 'done'} here"
                ] += 1
                continue
            is_same = found == (steps, model.is_right)
            is_move = compiler.is_older and found[1] and found[0].startswith("all_to_all") and not model.is_right
            counts["alike" if is_same else "moved by it" if is_move else "unlike"] += 1
            if not is_same and not is_move:
                print(f"    {source} -> {target}: the compiler {found}, the model {(steps, model.is_right)}")
                wrong += 1
        print(f"grid {sizes_text(grid)}, rank {rank}: " + ", ".join(f"{n} {what}" for what, n in counts.most_common()))
    return wrong
