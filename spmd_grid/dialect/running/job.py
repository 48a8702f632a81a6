"""One run of a function by every process of a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from spmd_grid.array.constructors import from_global
from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.dialect.execute.devices import EngineDevices, pure_grids
from spmd_grid.dialect.execute.faults import CheckError, ExecutionError
from spmd_grid.dialect.execute.layouts import block_of, function_types, layout_of_type, process_coords, whole_of
from spmd_grid.dialect.execute.reading import (
    is_shaped,
    symbol,
    value_name,
)
from spmd_grid.dialect.execute.reference import run_reference
from spmd_grid.dialect.execute.runner import FunctionRunner, check_arguments, function_of
from spmd_grid.dialect.execute.values import Undefined
from spmd_grid.dialect.partition.annotated import grid_of, is_annotated, program_of, zero_points
from spmd_grid.dialect.partition.upstream import upstream_of
from spmd_grid.dialect.running.checking import SerialRun, most_cells
from spmd_grid.dialect.running.inputs import as_value, device_arguments, whole_arguments
from spmd_grid.dialect.running.showing import in_lines, in_one_line, saved
from spmd_grid.dialect.running.telling import results_of, told
from spmd_grid.dialect.syntax.positions import known_position
from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.learn_facts import swap_texts
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.program.lowerings.eager import as_sharded
from spmd_grid.program.partition.public import Partition, partition
from spmd_grid.program.partition.steps import LocalValue, Move
from spmd_grid.transport.launch import current_world

__all__ = ["Job", "emitted", "run_job"]


@dataclass(frozen=True)
class Job:
    """A function to run: its name, arguments, where results go, and what is shown.

    ``is_checked``: whether results are compared with the serial run.
    """

    main: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    is_checked: bool = False
    shows_values: bool = False
    shows_results: bool = True
    optimise: bool = True


def run_job(module: ModuleOp, job: Job) -> list[Any]:
    """Run a function by all processes; process 0 prints and writes results.  Collective over all processes.

    Returns the results, which of annotated functions are ShardedArrays.  Raises what operations raise, ExecutionError,
    and CheckError where a result is not the serial one.
    """
    function = function_of(module, job.main)
    if job.outputs and len(job.outputs) > len(_result_types(function)):
        raise ExecutionError(
            f"{len(job.outputs)} outputs are given; @{symbol(function, 'sym_name')} has {len(_result_types(function))}"
            " results",
            known_position(function),
        )
    run = _run_annotated if is_annotated(function) else _run_local
    return run(module, function, job)


def _result_types(function: Operation) -> list[Any]:
    last = function.regions[0].block.last_op
    return [] if last is None else [x.type for x in last.operands]


def _say(text: str, stream: Any = None) -> None:
    print(text, file=stream or sys.stdout, flush=True)


# -- functions with local types ------------------------------------------------------------------------------------


def _run_local(module: ModuleOp, function: Operation, job: Job) -> list[Any]:
    world = current_world()
    title = symbol(function, "sym_name")
    grids = pure_grids(module, title, world.size)
    grid = next(iter(grids.values()), Grid((world.size,)))
    wholes = _Wholes.of(function, grid, grids)
    types = [x.type for x in function.regions[0].block.args]
    every = [] if wholes is None else whole_arguments(job.inputs, wholes.types)

    def of_device(process: int) -> list[Any]:
        if wholes is None:
            return device_arguments(job.inputs, types, grid.shape, process_coords(grid, process))
        return list(map(_own, wholes.blocks(every, process)))

    # Before the run, which may write to a file that it has read.
    by_device = [of_device(process) for process in range(grid.size)] if job.is_checked and not world.rank else []
    shown = _shown_values(f" on {process_coords(grid, world.rank)}", function) if job.shows_values else None
    runner = FunctionRunner(module, EngineDevices(grids), observe=shown)
    results = runner.call(title, of_device(world.rank))
    if job.is_checked or job.outputs or job.shows_results:
        everyone = [results_of(each, process) for process, each in enumerate(swap_texts(world, told(results)))]

        def run(typed: Callable[[Any, Attribute], Any]) -> list[Any]:
            inputs = [[typed(_own(x), kind) for x, kind in zip(each, types)] for each in by_device]
            return run_reference(module, title, grids, inputs)

        serial = SerialRun(run, most_cells(module, every, grid.size)) if job.is_checked else None
        if wholes is None:
            _on_first(world, lambda: _report_local(title, job, grid, everyone, serial))
        else:
            _on_first(world, lambda: _report_wholes(title, job, wholes, everyone, serial))
    return results


def _own(x: Any) -> Any:
    """A copy of an array, which a function may write to."""
    return np.array(x) if isinstance(x, np.ndarray) else x


class _Wholes(NamedTuple):
    """The whole arrays of a function on blocks that says what they are blocks of."""

    types: list[Attribute]
    sources: list[Layout]
    targets: list[Layout]

    @staticmethod
    def of(function: Operation, grid: Grid, grids: dict[str, Grid]) -> _Wholes | None:
        """The whole arrays of a function; None where it does not say them."""
        found = function_types(function)
        if found is None:
            return None
        sources, targets = ([layout_of_type(kind, grid, grids.__getitem__) for kind in each] for each in found)
        return _Wholes(found[0], sources, targets)

    def blocks(self, arrays: Sequence[np.ndarray], process: int) -> list[Any]:
        """The blocks of a process."""
        for number, (x, layout) in enumerate(zip(arrays, self.sources)):
            if x.shape != layout.global_shape:
                raise ExecutionError(f"input {number} has shape {x.shape}; it must be {layout.global_shape}")
        return [block_of(x, layout, process) for x, layout in zip(arrays, self.sources)]

    def joined(self, everyone: Sequence[Sequence[Any]], number: int) -> np.ndarray:
        """A result as a whole array."""
        return whole_of([results[number] for results in everyone], self.targets[number])


def _report_wholes(
    title: str, job: Job, wholes: _Wholes, everyone: Sequence[Sequence[Any]], serial: SerialRun | None
) -> None:
    for number, layout in enumerate(wholes.targets):
        found = wholes.joined(everyone, number)
        if job.shows_results:
            _say(f"@{title}, result {number} as {layout.sharding}:\n{in_lines(found)}")
        if number < len(job.outputs):
            saved(job.outputs[number], found, None)
        if serial is not None:
            words = serial.compared(f"@{title}: result {number}", found, partial(wholes.joined, number=number))
            _say(f"@{title}: result {number} against the run of all devices in one process: {words}")


def _report_local(
    title: str, job: Job, grid: Grid, everyone: Sequence[Sequence[Any]], serial: SerialRun | None
) -> None:
    devices = list(np.ndindex(*grid.shape))
    order = [grid.process(device) for device in range(grid.size)]
    everyone = [everyone[process] for process in order]
    for number in range(len(everyone[0])):
        if job.shows_results:
            for at, results in zip(devices, everyone):
                _say(f"@{title}, result {number} on device {at}:\n{in_lines(results[number])}")
        if number < len(job.outputs):
            saved(job.outputs[number], [results[number] for results in everyone], grid.shape)
    if serial is not None:
        for number in range(len(everyone[0])):
            for at, process, found in zip(devices, order, everyone):
                label = f"@{title}: result {number} on device {at}"
                serial.compared(label, found[number], _result_at(process, number))
        _say(f"@{title}: all results are those of one process that computes all {len(devices)} devices")


def _result_at(process: int, number: int) -> Callable[[list[Any]], Any]:
    return lambda everyone: everyone[process][number]


def _shown_values(where: str, function: Operation) -> Callable[[Operation, Sequence[Any]], None]:
    def show(op: Operation, found: Sequence[Any]) -> None:
        for result, x in zip(op.results, found):
            if hasattr(x, "shape") or isinstance(x, Undefined):
                file_name, line, _ = known_position(op)
                name = value_name(result) or "_"
                _say(f"{file_name}:{line}: %{name}{where}: {result.type} = {in_one_line(x)}")

    return show


def _on_first(world: Any, report: Callable[[], None]) -> None:
    """Let process 0 report; its error is raised by all."""
    error: SpmdError | None = None
    if world.rank == 0:
        try:
            report()
        except SpmdError as found:
            error = found
    text = json.dumps(None if error is None else [isinstance(error, CheckError), str(error)]).encode()
    failed = json.loads(swap_texts(world, text if world.rank == 0 else b"")[0])
    if failed is not None:
        raise (CheckError if failed[0] else ExecutionError)(failed[1])


# -- annotated functions -------------------------------------------------------------------------------------------


def _partitioned(module: ModuleOp, function: Operation, job: Job, size: int) -> tuple[Partition, list[Any], list[bool]]:
    """The partition, the arguments as whole arrays, and which of them are arrays."""
    grids = pure_grids(module, symbol(function, "sym_name"), size)
    grid = grids[grid_of(function, grids)]
    types = [x.type for x in function.regions[0].block.args]
    whole = [as_value(x, kind) for x, kind in zip(whole_arguments(job.inputs, types), types)]
    check_arguments(function, whole)
    points = zero_points(function)
    numbers = {i: x for i, (x, kind) in enumerate(zip(whole, types)) if not is_shaped(kind) or i in points}
    shapes = [np.shape(x) for x in whole]
    program = program_of(module, symbol(function, "sym_name"), grids, shapes, numbers)
    part = partition(program, grid, optimise=job.optimise)
    return part, whole, [i not in numbers for i in range(len(whole))]


def _run_annotated(module: ModuleOp, function: Operation, job: Job) -> list[Any]:
    world = current_world()
    part, whole, is_array = _partitioned(module, function, job, world.size)
    grid = init_grid(part.grid.shape, ranks=part.grid.ranks)
    title = symbol(function, "sym_name")
    arrays = [
        from_global(np.asarray(x), sharding, grid)
        for x, sharding in zip([x for x, is_one in zip(whole, is_array) if is_one], part.in_shardings)
    ]
    if world.rank == 0:
        for line in upstream_notes(part):
            _say(f"note: {line}", sys.stderr)
    results = (_run_and_show if job.shows_values else _results)(part, grid, arrays)
    if job.is_checked or job.outputs or job.shows_results:
        gathered = [_whole(x) for x in results]
        kinds = _result_types(function)
        gathered = [np.asarray(x, dtype=None if isinstance(x, np.ndarray) else np.asarray(x).dtype) for x in gathered]
        shardings = [x.sharding if isinstance(x, LocalValue) else None for x in part.schedule.results]
        _on_first(world, lambda: _report_annotated(module, title, job, whole, gathered, shardings, kinds))
    return results


def _results(part: Partition, grid: ProcessGrid, arrays: Sequence[ShardedArray]) -> list[Any]:
    """The results of a run, also of a program without arguments, which gives blocks: as ShardedArrays, and numbers."""
    found = part.run(grid, *arrays)
    results = list(found) if isinstance(found, tuple) else [found]
    layouts = [x.layout if isinstance(x, LocalValue) and x.shape else None for x in part.schedule.results]
    return [
        x if isinstance(x, ShardedArray) else as_sharded(x, layout, grid)
        for x, layout in zip(results, layouts, strict=True)
    ]


def _whole(x: Any) -> Any:
    return x.to_global() if isinstance(x, ShardedArray) else x


def _report_annotated(
    module: ModuleOp,
    title: str,
    job: Job,
    whole: Sequence[Any],
    results: Sequence[Any],
    shardings: Sequence[Any],
    kinds: Sequence[Any],
) -> None:
    for number, (found, sharding, kind) in enumerate(zip(results, shardings, kinds)):
        if job.shows_results:
            _say(f"@{title}, result {number}: {kind} as {sharding}\n{in_lines(found)}")
        if number < len(job.outputs):
            saved(job.outputs[number], found, None)
    if job.is_checked:
        types = [x.type for x in function_of(module, title).regions[0].block.args]

        def run(typed: Callable[[Any, Attribute], Any]) -> list[Any]:
            return FunctionRunner(module).call(title, list(map(typed, whole, types)))

        serial = SerialRun(run, most_cells(module, whole))
        for number, found in enumerate(results):
            words = serial.compared(f"@{title}: result {number}", found, itemgetter(number))
            _say(f"@{title}: result {number} against the serial run: {words}")


def _run_and_show(part: Partition, grid: Any, arrays: Sequence[Any]) -> list[Any]:
    """The results of a run that shows every value: all of them are results of it, too, so passes take none away."""
    program = part.program
    values = [value for operation in program.operations for value in operation.results]
    every = replace(program, results=(*program.results, *values), returns_one=False)
    found = _results(partition(every, part.grid, part.in_shardings), grid, arrays)
    for value, x in zip(values, found[len(program.results) :]):
        cells = _whole(x)
        if current_world().rank == 0:
            position = f"{value.site}: " if value.site else ""
            _say(f"{position}{value!r} as {part.sharding_of(value)} = {in_one_line(cells)}")
    return found[: len(program.results)]


def upstream_notes(part: Partition) -> list[str]:
    """The reshardings of a program that the compiler's own pass refuses, or gets wrong, in words."""
    found = []
    for step in part.materialised.steps:
        if isinstance(step, Move) and not step.source.sharding.partial_axes:  # sums are no resharding to the compiler
            model = upstream_of(step.source.sharding, step.target.sharding, step.source.shape)
            if model.refusal or not model.is_right:
                change = f"from {step.source.sharding} to {step.target.sharding}"
                found.append(f"{step.name} {change}: {model}")
    return found


def emitted(module: ModuleOp, job: Job, stage: str, size: int) -> str:
    """The text of a stage of an annotated function.  Plans only.  Raises ExecutionError."""
    function = function_of(module, job.main)
    if not is_annotated(function):
        raise ExecutionError(
            f"@{symbol(function, 'sym_name')} has local types and no shard.shard: it is partitioned already, and has no"
            f" stage {stage!r}",
            known_position(function),
        )
    part, _, _ = _partitioned(module, function, job, size)
    return part.text(stage)
