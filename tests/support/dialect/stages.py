"""Texts of a program's stages, run on whole arrays."""

from functools import lru_cache
from math import prod

import numpy as np

import spmd_grid as sg
from spmd_grid.dialect import parse, to_text
from spmd_grid.dialect.execute.devices import EngineDevices, pure_grids
from spmd_grid.dialect.execute.layouts import block_of, function_types, layout_of_type, whole_of
from spmd_grid.dialect.execute.runner import FunctionRunner, function_of
from spmd_grid.dialect.partition.annotated import is_annotated, program_of
from spmd_grid.transport.launch import current_world


@lru_cache(4)
def read(text):
    """The module of a text; it is printed and read again."""
    module = parse(text, "stage.mlir")
    again = parse(to_text(module), "again.mlir")
    assert again.is_structurally_equivalent(module)
    return again


def run_stage(text, arrays):
    """The results on this process: whole arrays of annotated stages, blocks of the others."""
    module = read(text)
    function = function_of(module, None)
    grids = pure_grids(module, None, current_world().size)
    (name,) = grids
    if is_annotated(function):
        program = program_of(module, None, grids, [x.shape for x in arrays], {})
        part, grid = sg.partition(program, grids[name]), sg.init_grid(grids[name].shape, ranks=grids[name].ranks)
        given = [sg.from_global(x, sharding, grid) for x, sharding in zip(arrays, part.in_shardings)]
        found = part.run(grid, *given)
        results = found if isinstance(found, tuple) else (found,)
        return [np.asarray(x.to_global() if isinstance(x, sg.ShardedArray) else x) for x in results]
    devices = EngineDevices(grids)
    process = devices.grid(name).rank
    sources, _ = function_types(function)
    blocks = [block_of(x, layout_of_type(kind, grids[name]), process) for x, kind in zip(arrays, sources)]
    return FunctionRunner(module, devices).call(None, blocks)


def wholes(text, everyone):
    """The whole results of what all processes found."""
    module = read(text)
    function = function_of(module, None)
    if is_annotated(function):
        return everyone[0]
    (grid,) = pure_grids(module, None, len(everyone)).values()
    layouts = [layout_of_type(kind, grid) for kind in function_types(function)[1]]
    return [whole_of([results[n] for results in everyone], layout) for n, layout in enumerate(layouts)]


def check_stage(spmd, part, stage, arrays, wanted):
    """Print a stage, run its text, and compare the whole results with ``wanted``."""
    text = part.text(stage)
    read(text)  # here, since all simulated ranks at once would each read it
    found = wholes(text, spmd(prod(part.grid.shape), run_stage, text, arrays))
    for result, due in zip(found, wanted, strict=True):
        assert result.shape == np.shape(due), text
        if result.dtype.kind not in "biufc":
            assert np.array_equal(result, due), text
            continue
        np.testing.assert_allclose(result, due, rtol=1e-5, atol=1e-5, err_msg=text)
