"""Random well-typed modules: printed and read again they are equal, and executed they equal numpy."""

import numpy as np
import pytest
from support.dialect.random_modules import AnnotatedModule, LocalModule

import spmd_grid as sg
from spmd_grid.dialect import parse, to_text
from spmd_grid.dialect.execute.devices import EngineDevices, pure_grids
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.dialect.partition.annotated import program_of

GRIDS = [(2,), (3,), (2, 2), (2, 3)]


def partitioned(module, text):
    grids = pure_grids(text, "main", int(np.prod(module.grid)))
    return sg.partition(program_of(text, "main", grids, module.shapes, {}), grids["g"])


def run_annotated(seed, shape):
    module = AnnotatedModule(seed, shape)
    part = partitioned(module, parse(module.text, "random.mlir"))
    grid = sg.init_grid(shape)
    given = [sg.from_global(x, sharding, grid) for x, sharding in zip(module.arguments(), part.in_shardings)]
    for found, due in zip(part.run(grid, *given), module.expected()):
        whole = found.to_global() if isinstance(found, sg.ShardedArray) else found
        np.testing.assert_allclose(whole, due, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(16))
def test_annotated_modules_equal_numpy(spmd, seed):
    shape = GRIDS[seed % len(GRIDS)]
    spmd(int(np.prod(shape)), run_annotated, seed, shape)


@pytest.mark.parametrize("seed", range(16, 24))
def test_annotated_modules_have_their_serial_meaning(seed):
    module = AnnotatedModule(seed, (2, 3))
    text = parse(module.text, "random.mlir")
    assert to_text(parse(to_text(text))) == to_text(text)
    for found, due in zip(FunctionRunner(text).call("main", module.arguments()), module.expected()):
        np.testing.assert_allclose(found, due, rtol=1e-12, atol=1e-12)


def run_local(seed, shape):
    module = LocalModule(seed, shape)
    text = parse(module.text, "random.mlir")
    size = int(np.prod(shape))
    grids = pure_grids(text, "main", size)
    arrays = np.random.default_rng(seed).integers(-9, 9, (size, *module.shape))
    devices = EngineDevices(grids)
    (found,) = FunctionRunner(text, devices).call("main", [arrays[devices.grid("g").rank].copy()])
    return found, module.text, arrays


@pytest.mark.parametrize("seed", range(12))
def test_collectives_equal_those_by_numpy(spmd, seed):
    from spmd_grid.dialect.execute.reference import run_reference

    shape = GRIDS[seed % len(GRIDS)]
    found = spmd(int(np.prod(shape)), run_local, seed, shape)
    text = parse(found[0][1], "random.mlir")
    assert to_text(parse(to_text(text))) == to_text(text)
    arrays = found[0][2]
    due = run_reference(text, "main", pure_grids(text, "main", len(arrays)), [[x] for x in arrays])
    for (result, _, _), (expected,) in zip(found, due):
        np.testing.assert_array_equal(result, expected)
