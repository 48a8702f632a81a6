"""Preparations of `init_grid`: its arguments fitted to the processes, and compared between them."""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.errors import GridError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.device_grid import Grid, resolve_shape
from spmd_grid.links.known import known_links
from spmd_grid.transport.communicator import Communicator, Process
from spmd_grid.transport.mismatch import DIFFERENT_GRIDS, mismatch
from spmd_grid.watch.call_site import call_site

__all__ = ["InitGridCall", "as_ranks", "compares", "fitting_grid", "in_order"]


def compares(world: Communicator) -> bool:
    """Whether the processes of ``world`` compare the grids that they make: as simulated ranks, or in checking mode."""
    recorder = world.process.recorder
    return world.size > 1 and (world.shares_objects or (recorder is not None and recorder.check))


class InitGridCall:
    """A call of init_grid: the grid that it makes, or its refusal; an activity for reports."""

    def __init__(self, grid: Grid | None, refused: GridError | None):
        self._text = repr(grid) if refused is None else f"refused: {refused}"

    def describe(self) -> str:
        """The call as reports show it."""
        return f"init_grid of {self._text}"

    def compare(self, world: Communicator) -> None:
        """Compare the grids that all processes make.  Collective.  Raises MismatchError, the same on every process."""
        differing = world.process.gate.run("init_grid", self._compare, world)
        if differing is not None:
            error = mismatch(differing, DIFFERENT_GRIDS)
            error.is_shared = True
            raise error

    def _compare(self, world: Communicator) -> list[str] | None:
        process, recorder = world.process, world.process.recorder
        process.activity = self
        if recorder is not None and recorder.is_idle:
            differing = recorder.watch(self, self._exchange, world)
        else:
            differing = self._exchange(world)
        process.activity = None
        return differing

    def _exchange(self, world: Communicator) -> list[str] | None:
        return world.compare(self._text, f"rank {world.rank}: {self.describe()} at {call_site()}")


def as_ranks(ranks: object) -> tuple[int, ...]:
    """The processes that ``ranks`` lists.  Local.  Raises GridError."""
    numbers = as_ints(ranks)
    if not numbers:
        raise GridError(f"ranks is {ranks!r}; it must list the process of each device, by linear index")
    return numbers


def fitting_grid(
    shape: Sequence[int], axis_names: Sequence[str] | None, ranks: tuple[int, ...] | None, n_processes: int
) -> Grid:
    """The grid, if every device has its own process and, unless ``ranks`` is given, every process a device."""
    n_devices = n_processes if ranks is None else len(ranks)
    grid = Grid(resolve_shape(shape, n_devices), axis_names, ranks)
    if grid.size != n_devices:
        raise GridError(
            f"a grid of shape {grid.shape} has {grid.size} devices, but "
            + (
                f"there are {n_processes} processes (ranks= may name those to use)"
                if ranks is None
                else f"ranks lists {n_devices} processes; every device needs one"
            )
        )
    if ranks is not None and max(ranks) >= n_processes:
        raise GridError(f"ranks names process {max(ranks)}; there are processes 0 to {n_processes - 1}")
    return grid


def in_order(grid: Grid, order: str, process: Process) -> Grid:
    """``grid`` with its processes in the order that is asked for.  Local, and alike on all processes.

    Raises GridError.
    """
    if order not in ("rank", "auto"):
        raise GridError(f'order is {order!r}; it must be "rank" or "auto"')
    if order == "rank" or len(set(process.nodes)) == 1:
        return grid
    from spmd_grid.links.order import ordered_ranks  # most programs need it not

    plain = grid if grid.ranks is None else Grid(grid.shape, grid.axis_names, sorted(grid.ranks))
    ranks = ordered_ranks(plain, known_links(process))
    return plain if ranks is None else Grid(grid.shape, grid.axis_names, ranks)
