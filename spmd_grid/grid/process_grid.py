"""A grid bound to running processes: the only module of this package that uses communicators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, GridError, ShapeError
from spmd_grid.grid.bound import BoundToProcesses
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.making import InitGridCall, as_ranks, compares, fitting_grid, in_order
from spmd_grid.links.known import known_links
from spmd_grid.links.model import LinkModel
from spmd_grid.transport.communicator import Activity, Communicator
from spmd_grid.transport.launch import as_communicator, current_world, is_simulated, refuse_grid_during_import
from spmd_grid.typing import GridAxes, MultiIndex, Shape
from spmd_grid.watch.recorder import Recorder

__all__ = ["ProcessGrid", "init_grid"]


class ProcessGrid(BoundToProcesses):
    """A device grid whose devices are the running processes, as this process sees it.

    ``grid`` is the pure geometry, ``rank`` the number of this process and ``coords`` its device's coordinates, or
    None for a process that is not in the grid.  Sub-communicators come from one cache per program and are shared
    between grids, so grids may be made and dropped freely.  A grid is a context manager; ``close`` frees nothing but
    references, and makes further use an error.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_groups",
        "_peers",
        "_world",
        "calls",
        "coords",
        "functions",
        "grid",
        "known",
        "noted",
        "plans",
        "process",
        "rank",
        "results",
        "settle",
        "updates",
    )
    instead = "pickle its .grid"

    def __init__(self, grid: Grid, world: Communicator) -> None:
        self.grid = grid
        self.rank = world.rank
        self.coords: MultiIndex | None = grid.coords_of_process(world.rank)
        self.calls: dict[tuple[object, ...], Any] = {}  # operations keep their prepared calls here
        self.known: list[object] = []  # and what compiled code knows of them
        self.functions: dict[tuple[Any, ...], Any] = {}  # functions of sharded arrays their courses
        self.results: dict[object, list[Any]] = {}  # and results that are given again
        self.noted: Any = None  # and what plain operands they had
        self.settle: Callable[[], None] | None = None  # compares what is to be compared at the grid's next meeting
        self.plans: Any = None  # and `map_overlap` its plans
        self.updates: Any = None  # and slices those of halos
        self.process = world.process  # the calling process
        self._world = world
        self._groups: dict[tuple[int, ...], Communicator] = {}
        self._peers: dict[tuple[int, ...], Communicator] = {}
        self._closed = False

    @property
    def shape(self) -> Shape:
        """Number of devices along each grid axis."""
        return self.grid.shape

    @property
    def ndim(self) -> int:
        """Number of grid axes."""
        return self.grid.ndim

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.grid.size

    @property
    def own_coords(self) -> MultiIndex:
        """``coords``, of a process that is in the grid.  Raises `GridError` on one that is not."""
        if self.coords is None:
            raise GridError(f"process {self.rank} is not in the {self.grid} grid")
        return self.coords

    @property
    def axis_names(self) -> tuple[str, ...] | None:
        """Names of the grid axes, if they have any."""
        return self.grid.axis_names

    def grid_shape(self, axes: GridAxes | None = None) -> Shape:
        """Sizes of ``axes`` in the order given, of all axes by default.  Local."""
        return self.grid.grid_shape(axes)

    def process_linear_index(self) -> int | None:
        """Row-major index of this process's device; None outside the grid.  Local."""
        return None if self.coords is None else self.grid.linear_index(self.coords)

    def process_multi_index(self, axes: GridAxes | None = None) -> MultiIndex | None:
        """Coordinates of this process's device along ``axes``, in the order given; None outside the grid.  Local."""
        device = self.process_linear_index()
        return None if device is None else self.grid.multi_index(device, axes)

    def neighbors_linear_indices(self, coords: Sequence[int], split_axes: GridAxes) -> tuple[int, int]:
        """Linear indices of the devices (down, up) of ``coords`` along ``split_axes``; -1 if there is none.  Local."""
        return self.grid.neighbors_linear_indices(coords, split_axes)

    def group(self, axes: tuple[int, ...], activity: Activity | None = None) -> Communicator:
        """The communicator of this device's group over ``axes`` (numbers), in group order.

        Collective over the group the first time, when the communicator is made; ``activity`` is for reports: the
        operation that needs it.
        """
        found = self._groups.get(axes)
        if found is None:
            self._world.process.activity = activity
            found = self._groups[axes] = self._subgroup(axes, meets=True)
        return found

    def peers(self, axes: tuple[int, ...]) -> Communicator:
        """Like `group`, but only for messages between two of its devices.  Local."""
        found = self._peers.get(axes)
        if found is None:
            found = self._peers[axes] = self._subgroup(axes, meets=False)
        return found

    def _subgroup(self, axes: tuple[int, ...], meets: bool) -> Communicator:
        self.check_use("a group of devices")
        members = group_members(self.grid, self.own_coords, axes)
        return self._world.subgroup([self.grid.process(device) for device in members], meets, self.grid)

    def like(self, grid: Grid, operation: str) -> ProcessGrid:
        """Another grid bound to the processes of the same program.

        Local.  Raises GridError if it needs a process that does not exist, or if this grid has been closed.
        """
        if self._closed:
            raise GridError(f"{operation}: the {self.grid} grid has been closed")
        last = max(grid.ranks) if grid.ranks else grid.size - 1
        if last >= self._world.size:
            raise GridError(
                f"{operation}: the grid {grid} needs process {last}; there are processes 0 to {self._world.size - 1}"
            )
        return ProcessGrid(grid, self._world)

    def check_same_program(self, other: object, operation: str) -> ProcessGrid:
        """``other`` itself, if it is a grid over the same processes in the same order.  Local.  Raises GridError."""
        if not isinstance(other, ProcessGrid):
            raise GridError(f"{operation}: grid is {other!r}; it must be a grid bound to processes")
        if other._world is not self._world:
            raise GridError(f"{operation}: the grids {self.grid} and {other.grid} were made on different communicators")
        return other

    @property
    def kept(self) -> dict[Any, Any]:
        """Objects that this process keeps for the rest of the program, by their use."""
        return self._world.process.kept

    @property
    def recorder(self) -> Recorder | None:
        """The recorder of this process's operations, if they are recorded.  Local."""
        return self.process.recorder

    def allocate(self, shape: Shape, dtype: DTypeLike, zeroed: bool = False) -> np.ndarray:
        """A new C-contiguous array, if possible in memory that the other processes of the node can address.

        Local.  Its cells are zeros if ``zeroed``, else arbitrary.  A child made by fork shares that memory with its
        parent: what one writes there, the other reads.  Arrays that the child allocates are its own.  Raises ShapeError
        and DTypeError.

        >>> from spmd_grid import run_spmd
        >>> run_spmd(lambda: init_grid((2,)).allocate((2, 1), "i2", zeroed=True).tolist(), ranks=2)
        [[[0], [0]], [[0], [0]]]
        """
        try:
            dtype = np.dtype(dtype)
        except TypeError as error:
            raise DTypeError(f"allocate: dtype is {dtype!r}; {error}") from None
        # Pointers to Python objects mean nothing to other processes, and elements without bytes need no shared memory.
        itemsize = dtype.itemsize
        try:
            if itemsize and not dtype.hasobject:
                n_bytes = prod(shape) * itemsize
                memory = self.process.arena.allocate(n_bytes, zeroed) if n_bytes >= 0 else None
                if memory is not None:
                    return np.ndarray(shape, dtype, memory)
            return np.zeros(shape, dtype) if zeroed else np.empty(shape, dtype)
        except (TypeError, ValueError):
            raise ShapeError(f"allocate: shape is {shape!r}; it must list extents, integers from 0") from None

    def links(self) -> LinkModel:
        """The links between the processes, as far as they are known without measuring: who shares a node.  Local."""
        return known_links(self.process)

    def measured_links(self, path: str | PathLike[str] | None = None) -> LinkModel:
        """As `LinkModel.measure` of this grid.  Collective."""
        self.check_use("LinkModel.measure")
        return self.process.gate.run("LinkModel.measure", self._measured_links, path)

    def _measured_links(self, path: str | PathLike[str] | None) -> LinkModel:
        from spmd_grid.links.kept import kept_or_measured

        return kept_or_measured(self.group(tuple(range(self.ndim))), path)

    def describe(self) -> str:
        """Text about the nodes of the grid's devices, and the cost of the order of its processes.

        Local.  A line for each node: its processes, and the devices that they are; by axis, the pairs of neighbours
        that share a node; by the model of the links, the time of a step in which every device sends a face to each
        neighbour, in this order, in that of the processes' numbers, and in that of ``init_grid(..., order="auto")``.

        >>> from spmd_grid import run_spmd
        >>> print(run_spmd(lambda: init_grid((2, 2)).describe(), ranks=4)[0])
        grid 2x2: 4 processes on one node
        """
        from spmd_grid.links.describe import grid_text

        return grid_text(self.grid, self.links())

    def check_use(self, operation: str) -> None:
        """Refuse a closed grid, a process that is not in it, and one whose operations are refused.  Local."""
        self.process.gate.check()
        if self._closed:
            raise GridError(f"{operation}: the {self.grid} grid has been closed")
        if self.coords is None:
            raise GridError(
                f"{operation}: process {self.rank} is not in the {self.grid} grid; only processes with"
                " grid.coords other than None take part in its operations"
            )

    def close(self) -> None:
        """End the use of this grid by this process.  Local; may be called again."""
        self._closed = True
        self.calls.clear()
        self.known.clear()
        self.forget_functions()
        self.forget_results()
        self.plans = self.updates = None
        self._groups.clear()
        self._peers.clear()

    def forget_functions(self) -> None:
        """Let go of the courses of functions, since processes may know of different ones.  Local."""
        self.functions.clear()
        self.noted = self.settle = None

    def forget_results(self) -> None:
        """Let go of the results that are kept.  Local."""
        for kept in self.results.values():
            for each in kept:
                each.is_kept = False
        self.results.clear()

    def __enter__(self) -> ProcessGrid:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ProcessGrid({self.grid}, rank={self.rank}, coords={self.coords})"


def init_grid(
    shape: Sequence[int],
    axis_names: Sequence[str] | None = None,
    ranks: Sequence[int] | None = None,
    comm: object = None,
    check: bool | None = None,
    timeout: float | None = None,
    order: Literal["rank", "auto"] = "rank",
) -> ProcessGrid:
    """Bind a grid of ``shape`` to the processes of the running program.

    Collective over all processes (of ``comm``), with the same arguments.  Simulated ranks, and processes in checking
    mode, compare the arguments.  Other processes send nothing, except that the first call initialises MPI, and that
    ``check`` and ``timeout`` are agreed on; if they hold different orders of a group's processes, they learn so when
    the group first communicates.

    Entries of ``shape`` may be -1; the other entries must divide the number of processes.  The quotient is spread over
    the -1 entries as factors that are as equal as possible, the larger ones first, as by MPI_Dims_create (12 processes:
    (-1, -1) is (4, 3), (-1, 2, -1) is (3, 2, 2)).  ``ranks`` lists the process of each device by linear index (default
    0, 1, ...); a process that is not in it gets a grid with ``coords`` None.  ``comm`` is an mpi4py intracommunicator
    to use in place of all processes.  Raises `GridError` when the shape does not fit the processes, and `MismatchError`
    when processes that compare make different grids.

    ``order="auto"`` gives devices to processes so that neighbouring devices share a node, as far as possible: it
    chooses the order in which a step, in which every device sends a face to each neighbour, takes the least time by the
    model of the links (see `ProcessGrid.describe`).  It compares all ways to divide the grid among the nodes if there
    are at most 20,000, and some of more.  ``ranks`` then lists the processes to use, in any order.  Processes keep the
    order of their numbers if no other is faster, and that of ``order="rank"`` if all share a node.

    ``check`` and ``timeout`` apply to the whole program from now on, except to plans that exist already; None keeps the
    present setting, at first that of ``SPMD_GRID_CHECK`` and ``SPMD_GRID_TIMEOUT``.  ``check=True`` records operations,
    and compares what is not compared otherwise: calls of a `HaloExchange`, and both ends of a message.  ``timeout``:
    when an operation has waited for this number of seconds, a report says what every rank is doing, and the program
    ends: under MPI all processes, with simulated ranks by `HangError`.  The clock stands still while any rank is at a
    debugger's prompt, or prepares the first use of an operation.  If processes ask for different settings, all are
    checked, and the smallest timeout counts.  Raises `TransportError` for invalid values.

    >>> from spmd_grid import run_spmd
    >>> run_spmd(lambda: init_grid((2, -1)).coords, ranks=6)
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    >>> run_spmd(lambda: init_grid((-1, -1)).shape, ranks=6)[0]
    (3, 2)
    """
    if is_simulated():
        refuse_grid_during_import(sys._getframe(1))
    world = current_world() if comm is None else as_communicator(comm)
    grid: Grid | None = None
    refused: GridError | None = None
    try:
        grid = fitting_grid(shape, axis_names, None if ranks is None else as_ranks(ranks), world.size)
        grid = in_order(grid, order, world.process)
    except GridError as error:
        alone = "; start the program with 'mpiexec -n N python app.py', or on simulated ranks"
        alone += " with 'python -m spmd_grid run -n N app.py'"
        refused = GridError(f"init_grid: {error}{alone if world.size == 1 else ''}")
    world.process.gate.check()
    was_compared = compares(world)
    call = InitGridCall(grid, refused)
    if was_compared:
        call.compare(world)
    if refused is not None:
        raise refused
    assert grid is not None, "either there is a grid or it was refused"
    bound = ProcessGrid(grid, world)
    world.process.coords = bound.coords
    if check is not None or timeout is not None:
        world.process.gate.run("init_grid", world.watch, check, timeout)
        if not was_compared and compares(world):
            call.compare(world)
    if bound.recorder is not None:
        bound.recorder.sign(world.process.label())
    return bound
