"""The processes that store or load together: what one of them knows, all learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from spmd_grid.errors import GridError, SpmdError, StorageError
from spmd_grid.formatting import printable
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.storage.system import System, system_of
from spmd_grid.transport.communicator import Communicator

__all__ = ["Team", "processes_of"]

_AXES = (0,)


class Team:
    """The processes of the grids of one operation ``op``, in the order of their numbers.  Collective, as the operation.

    ``grid``: one dimension, a device per process.  ``rank`` is this process's number among ``size``.  An error that one
    process meets is kept by `trying`, and raised on all by `agree`: until then every process goes on, so that none
    waits for another for ever.
    """

    def __init__(self, op: str, grids: Iterable[ProcessGrid]):
        found = list(grids)
        processes = [processes_of(each.grid) for each in found]
        for grid, numbers in zip(found, processes):
            found[0].check_same_program(grid, op)
            grid.check_use(op)
            if numbers != processes[0]:
                raise GridError(
                    f"{op}: arrays are on the grids {found[0].grid} and {grid.grid}, of different processes; all arrays"
                    " of one call must be spread over the same processes"
                )
        self.op, self.processes = op, processes[0]
        self.grid = found[0].like(Grid((len(self.processes),), ranks=self.processes), op)
        self.rank, self.size = self.processes.index(found[0].rank), len(self.processes)
        self._agreement = AgreePlan(op)
        self._error: SpmdError | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process is the first, which makes folders and writes manifests."""
        return self.rank == 0

    @property
    def system(self) -> System:
        """The system calls of this process."""
        return system_of(self.grid)

    @property
    def group(self) -> Communicator:
        """The communicator of the team."""
        return self.grid.group(_AXES)

    @property
    def failed(self) -> bool:
        """Whether this process has met an error that the others do not know yet."""
        return self._error is not None

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Keep the error that the enclosed code raises for `agree`.  Local."""
        try:
            yield
        except SpmdError as error:
            if error.cuts_off:
                raise
            self._error = self._error or error
        except (OSError, ValueError, TypeError, MemoryError) as error:
            self._error = self._error or StorageError(f"{self.op}: {type(error).__name__}: {error}")

    def agree(self, text: str = "") -> None:
        """Raise the first error that any process has kept, on all of them; compare ``text``, as it prints.  Collective.

        Raises MismatchError where the texts differ.
        """
        error, self._error = self._error, None
        if error is not None and self.size > 1:
            error = type(error)(f"{error} (on process {self.grid.rank})")
        self._agreement.agree(self.grid, _AXES, "", error)
        if text:  # by itself: one that has failed may not know it
            self._agreement.agree(self.grid, _AXES, printable(text))

    def tell(self, data: bytes) -> bytes:
        """The bytes of the first process.  Collective."""
        mine = np.frombuffer(data, np.uint8) if self.is_first else None
        return broadcast.run_in_gate(mine, self.grid, _AXES, ((0,),)).tobytes()

    def gather(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers of all processes one after the other, of one dimension and dtype.  Collective."""
        found: np.ndarray = all_gather.run_in_gate(numbers, self.grid, _AXES, (0, None))
        return found


def processes_of(grid: Grid) -> tuple[int, ...]:
    """The processes of a grid, in order.  Local."""
    return tuple(sorted(grid.ranks or range(grid.size)))
