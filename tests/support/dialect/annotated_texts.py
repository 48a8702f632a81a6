"""Texts of annotated functions, and their partitions."""

from math import prod

import numpy as np

import spmd_grid as sg
from spmd_grid.dialect import parse
from spmd_grid.dialect.execute.devices import pure_grids
from spmd_grid.dialect.partition.annotated import program_of
from support.dialect.case_texts import sizes_text


def function_text(grid, arguments, lines, result, name="main"):
    """A function; ``lines`` may use ``{NAME}`` for types of the arguments."""
    parameters = ", ".join(f"%{each}: {kind}" for each, kind in arguments.items())
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f"shard.grid @g(shape = {sizes_text(grid)})\nfunc.func @{name}({parameters}) -> {result[1]} {{\n{body}"
        f"  return {result[0]} : {result[1]}\n}}\n"
    )


def annotated(value, source, lists, kind, for_users=False):
    """The lines that annotate ``source``, and name it ``value``."""
    users = " annotate_for_users" if for_users else ""
    return [
        f"%s_{value} = shard.sharding @g split_axes = {lists} : !shard.sharding",
        f"%{value} = shard.shard %{source} to %s_{value}{users} : {kind}",
    ]


def planned(text, grid, shapes):
    """The partition of the function of a text."""
    module = parse(text, "case.mlir")
    grids = pure_grids(module, "main", prod(grid))
    return sg.partition(program_of(module, "main", grids, [tuple(shape) for shape in shapes], {}), grids["g"])


def lists_of(sharding):
    """The lists of a sharding without empty ones at the end."""
    lists = [list(axes) for axes in sharding.split_axes]
    while lists and not lists[-1]:
        lists.pop()
    return lists or [[]]


def run_part(part, arrays):
    """The only result, as a whole array."""
    grid = sg.init_grid(part.grid.shape)
    found = part.run(grid, *[sg.from_global(x, s, grid) for x, s in zip(arrays, part.in_shardings)])
    return found.to_global()


def check_run(spmd, part, function, dtype="f4"):
    """The partition runs, and equals a function of numpy."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x.shape).astype(dtype) for x in part.program.arguments]
    for found in spmd(part.grid.size, run_part, part, arrays):
        np.testing.assert_allclose(found, function(*arrays), rtol=2e-4, atol=2e-4)
