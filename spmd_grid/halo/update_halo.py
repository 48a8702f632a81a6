"""update_halo: refreshes the halo cells of a local array from the devices that own them.

Sharded dimensions are exchanged one after the other, each along its own line of devices; a dimension carries along
the halos of those done before it, which fills the corners without messages to diagonal neighbours.  Cells outside
the domain are left out of every message, so the boundary values of devices stay as they are.

Strips travel as MPI's messages, between processes of one node too; only simulated ranks copy from one another's arrays.
(`HaloExchange` uses the memory that processes share.)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import numpy as np

from spmd_grid.errors import CutOffError, OutputError, ShapeError, SpmdError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import DIRECT, MESSAGE, chosen_path
from spmd_grid.exchange.requests import Request, drive
from spmd_grid.exchange.transfer.execute import copy_from, next_tag, send_and_receive
from spmd_grid.exchange.transfer.traffic import traffic_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.blocks import block_starts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.halo.geometry.boundary import PeriodicLike, as_periodic
from spmd_grid.halo.line_exchange import LineExchange
from spmd_grid.ops.calls.arguments import check_grid, check_movable, gate_of, hashable
from spmd_grid.ops.calls.bounded_cache import keep, keep_call
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.shape_rules import same_dtype
from spmd_grid.typing import SplitAxes
from spmd_grid.watch.recorder import Recorder

__all__ = ["update_halo"]

_NOTHING = Facts(None, None)

Result = TypeVar("Result")


class UpdateHalo(CollectiveOperation):
    """Refreshes the halo of the local array ``x`` in place, corners included, and returns it.

    Collective over all axes of ``split_axes``.  ``x``: this device's local array, low halo + core + high halo along
    every sharded dimension, on border devices too; any strides.  ``split_axes``: per tensor dimension the grid axes
    that split it.  ``halo_sizes``: (low, high) per sharded dimension, flat or in pairs, alike on all devices.
    ``periodic``: one bool, or one per tensor dimension.  Blocks may be uneven, empty, or thinner than a halo.
    Cells outside the domain stay untouched.

    The blocks are computed from the local arrays.  ``global_shape`` (with ``blocks`` or ``sharded_dims_offsets``)
    fixes what they must be.

    One message of about the halo's size to each neighbour, dimension after dimension.

    Raises `AxisError`, `ShardingError`, `ShapeError`, `DTypeError` and `OutputError`, the same on every device of the
    group over all axes of ``split_axes``.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     x = np.zeros(4, int)
    ...     x[1:3] = [2 * grid.rank + 1, 2 * grid.rank + 2]
    ...     return sg.update_halo(x, grid, [[0]], halo_sizes=[1, 1]).tolist()
    >>> sg.run_spmd(body, ranks=3)
    [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 0]]
    """

    name = "update_halo"

    def __call__(
        self,
        x: np.ndarray,
        grid: ProcessGrid,
        split_axes: SplitAxes,
        halo_sizes: Any,
        periodic: PeriodicLike = False,
        *,
        global_shape: Sequence[int] | None = None,
        blocks: str = "ceil",
        sharded_dims_offsets: Any = None,
    ) -> np.ndarray:
        arguments: tuple[Any, ...] = split_axes, halo_sizes, periodic, global_shape, blocks, sharded_dims_offsets
        return gate_of(self.name, grid).run(self.name, self._move, "", self._update, x, grid, arguments)

    def refresh(self, x: np.ndarray, grid: ProcessGrid, layout: Layout, periodic: PeriodicLike) -> np.ndarray:
        """As the call, for the local array of a layout, as a part of an operation that has gone through the gate."""
        of = layout.sharding
        arguments = of.split_axes, of.halo_sizes, periodic, layout.global_shape, of.blocks, of.sharded_dims_offsets
        return self._move("", self._update, x, grid, arguments)

    def _move(
        self,
        kind: str,
        move: Callable[[Recorder | None, _PreparedUpdate, np.ndarray], Result],
        x: np.ndarray,
        grid: ProcessGrid,
        arguments: tuple[Any, ...],
    ) -> Result:
        """Check the arguments, and ``move`` what they say, recorded if asked for; the gate has been passed."""
        update = self._prepare(kind, grid, *arguments)
        recorder = grid.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(update, x, move, recorder, update, x)
        return move(recorder, update, x)

    def _update(self, recorder: Recorder | None, update: _PreparedUpdate, x: np.ndarray) -> np.ndarray:
        movements = update.agree(x)
        cells = np.asarray(x)
        if recorder is not None:
            _note(recorder, movements, cells)
        for line, transfer in movements:
            if line.reads_arrays:
                copy_from(transfer, line.comm.share(cells), cells)
                line.comm.barrier()  # none rewrites its array before all have copied
            else:
                drive(line.comm, send_and_receive(line.comm, transfer, cells, cells, next_tag(line.comm)))
        return x

    def start(
        self,
        x: np.ndarray,
        grid: ProcessGrid,
        split_axes: SplitAxes,
        halo_sizes: Any,
        periodic: PeriodicLike = False,
        *,
        global_shape: Sequence[int] | None = None,
        blocks: str = "ceil",
        sharded_dims_offsets: Any = None,
    ) -> Request:
        """Begins the update; ``wait()`` returns ``x``, which must not be touched until then."""
        arguments: tuple[Any, ...] = split_axes, halo_sizes, periodic, global_shape, blocks, sharded_dims_offsets
        gate = gate_of(self.name, grid)
        return gate.run(f"{self.name}.start", self._move, "start", self._start_moving, x, grid, arguments)

    def _start_moving(self, recorder: Recorder | None, update: _PreparedUpdate, x: np.ndarray) -> Request:
        movements = update.agree(x)
        if not movements:
            return Request.completed(x)
        if recorder is not None:
            _note(recorder, movements, np.asarray(x), MESSAGE)
        comm = movements[0][0].comm
        return Request(comm, _steps(x, movements), comm.process.activity)

    def prepare(
        self,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        dim: int,
        low: int,
        high: int,
        periodic: bool,
        starts: tuple[int, ...] | None,
    ) -> dict[str, Any]:
        return {"dim": dim, "low": low, "high": high, "periodic": periodic, "starts": starts}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> LineExchange:
        dim, low, high = call.args.dim, call.args.low, call.args.high
        same_dtype(self.name, facts, call.label)
        shapes = [fact.array()[0] for fact in facts]
        for i, shape in enumerate(shapes):
            others = [(d, n) for d, n in enumerate(shape) if d != dim]
            if others != [(d, n) for d, n in enumerate(shapes[0]) if d != dim]:
                raise ShapeError(
                    f"update_halo: {call.label(0)} has shape {shapes[0]}, {call.label(i)} has {shape};"
                    f" along grid axes {list(call.axes)} they must be equal but for dimension {dim}"
                )
            if shape[dim] < low + high:
                raise ShapeError(
                    f"update_halo: {call.label(i)} has extent {shape[dim]} along dimension {dim}; it must hold"
                    f" the halos of {low} + {high} cells"
                )
        line = LineExchange(call, facts)
        if call.args.starts is not None and tuple(line.starts) != call.args.starts:
            raise ShapeError(
                f"update_halo: along dimension {dim} the local arrays make blocks that start at {line.starts}, but"
                f" global_shape makes {list(call.args.starts)}"
            )
        return line

    def _prepare(
        self,
        kind: str,
        grid: ProcessGrid,
        split_axes: SplitAxes,
        halo_sizes: Any,
        periodic: PeriodicLike,
        global_shape: Sequence[int] | None,
        blocks: str,
        sharded_dims_offsets: Any,
    ) -> _PreparedUpdate:
        """The checked arguments, kept by the grid; refuses arguments that all processes know alike."""
        given = (split_axes, halo_sizes, periodic, global_shape, sharded_dims_offsets)
        thread_name = grid.process.gate.thread_name()
        key = (self.name, blocks, kind, thread_name, chosen_path(), type(periodic), *map(hashable, given))
        try:
            return grid.calls[key]
        except (KeyError, TypeError):
            pass
        check_grid(self.name, grid)
        try:
            sharding = Sharding(
                grid,
                split_axes,
                halo_sizes=halo_sizes,
                blocks=blocks,
                sharded_dims_offsets=sharded_dims_offsets,
            )
            shape = None if global_shape is None else sharding.check_global_shape(global_shape)
            n_dims = len(sharding.split_axes) if shape is None else len(shape)
            wraps = as_periodic(periodic, n_dims, at_least=shape is None)
        except SpmdError as error:
            raise type(error)(f"{self.name}: {error}") from None
        calls = []
        for dim in reversed(sharding.sharded_dims):
            args = (dim, *sharding.halo_of(dim), wraps[dim], _known_starts(sharding, dim, shape))
            calls.append(self.find_call(grid, sharding.axes_of(dim), args, kind, thread_name=thread_name))
        update = _PreparedUpdate(sharding, shape, None if np.ndim(periodic) == 0 else len(wraps), calls)
        keep_call(grid, key, update)
        return update


class _PreparedUpdate:
    """An update with checked arguments.

    ``ndim``: how many dimensions ``periodic`` lists, None for a bool.  ``calls`` are those of the lines, last dimension
    first.
    """

    def __init__(
        self,
        sharding: Sharding,
        global_shape: tuple[int, ...] | None,
        ndim: int | None,
        calls: list[CollectiveCall],
    ):
        self._sharding = sharding
        self._global_shape = global_shape
        self._ndim = ndim
        self._calls = calls
        self._movements: dict[tuple, list[tuple[LineExchange, Transfer]]] = {}

    def describe(self) -> str:
        """Text about the update, for reports."""
        sharding = self._sharding
        return f"update_halo(split_axes={list(map(list, sharding.split_axes))}, halo_sizes={sharding.halo_sizes})"

    def agree(self, x: np.ndarray) -> list[tuple[LineExchange, Transfer]]:
        """The movements in order, agreed by all devices of all lines.  Collective.

        Each line agrees on its arrays; a second round tells every device of refusals on any line.
        """
        problem: SpmdError | None = None
        facts = _NOTHING
        try:
            _check_local(x, self._sharding, self._global_shape, self._ndim)
            facts = Facts(x.shape, x.dtype)
        except SpmdError as error:
            if not self._calls:
                raise
            problem = self._calls[0].blame(error)
        lines = {}
        for call in self._calls * min(len(self._calls), 2):
            opening = call.opening(facts) if problem is None else call.refusal(problem)
            try:
                lines[call], _ = call.agree(opening, None)
            except SpmdError as error:
                if error.cuts_off or isinstance(error, CutOffError):
                    raise  # there is no second round
                problem = error
        if problem is not None:
            raise problem
        key = x.shape, *lines.values()
        movements = self._movements.get(key)
        if movements is None:
            movements = _movements(x.shape, list(lines.values()))
            keep(self._movements, key, movements)
        return movements


def _check_local(x: object, sharding: Sharding, global_shape: tuple[int, ...] | None, ndim: int | None) -> None:
    """Refuses a local array that cannot be updated in place.  Local; the caller agrees on the error."""
    if not isinstance(x, np.ndarray) or isinstance(x, np.ma.MaskedArray):
        raise OutputError(f"update_halo: x is {type(x).__name__}; it is updated in place and must be a numpy array")
    if not x.flags.writeable:
        raise OutputError("update_halo: x is read-only; it is updated in place and must be writeable")
    check_movable("update_halo", x.dtype)
    if x.ndim < len(sharding.split_axes):
        raise ShapeError(f"update_halo: split_axes speaks of {len(sharding.split_axes)} dimensions, but x has {x.ndim}")
    if ndim is not None and x.ndim != ndim:
        raise ShapeError(f"update_halo: periodic has {ndim} entries, but x has {x.ndim} dimensions")
    if global_shape is not None and (
        x.ndim != len(global_shape)
        or any(n != x.shape[dim] for dim, n in enumerate(global_shape) if not sharding.axes_of(dim))
    ):
        raise ShapeError(
            f"update_halo: x has shape {x.shape}, but global_shape is {global_shape}; dimensions that are not split"
            " must be equal"
        )


def _known_starts(sharding: Sharding, dim: int, global_shape: tuple[int, ...] | None) -> BlockStarts | None:
    """The starts of the blocks of dimension ``dim``, where the caller has fixed them."""
    offsets = sharding.offsets_of(dim)
    if offsets is not None or global_shape is None:
        return offsets
    return block_starts(global_shape[dim], sharding.sizes_of(dim), sharding.blocks)


def _movements(shape: tuple[int, ...], lines: list[LineExchange]) -> list[tuple[LineExchange, Transfer]]:
    """The movements in order: strips cover the core of dimensions still to come, and all of those done."""
    across = [(0, n) for n in shape]
    for line in lines:
        across[line.dim] = (line.low, shape[line.dim] - line.high)
    movements = []
    for line in lines:
        movements.append((line, line.transfer(shape, across)))
        across[line.dim] = line.extent
    return movements


def _note(
    recorder: Recorder, movements: list[tuple[LineExchange, Transfer]], cells: np.ndarray, way: str | None = None
) -> None:
    """Notes the movements for traces; ``way``: the path that all of them take, by default that of each line."""
    if recorder.traces:
        for line, transfer in movements:
            taken = way or (DIRECT if line.reads_arrays else MESSAGE)
            recorder.moved(traffic_of(line.comm, cells.itemsize, taken, transfer))


def _steps(x: np.ndarray, movements: list[tuple[LineExchange, Transfer]]) -> Generator[list[Any], None, np.ndarray]:
    cells = np.asarray(x)
    tags = [next_tag(line.comm) for line, _ in movements]
    for tag, (line, transfer) in zip(tags, movements):
        yield from send_and_receive(line.comm, transfer, cells, cells, tag)
    return x


update_halo = UpdateHalo()
