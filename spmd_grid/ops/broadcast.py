"""broadcast: send one device's array to its whole group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import hashable, root_index
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, dtype_of, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import GridAxes

__all__ = ["broadcast"]


class Broadcast(CollectiveOperation):
    """Send the array of ``root`` to every device of its group.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``root`` lists the root's coordinates along
    ``grid_axes``.  Off the root ``x`` is ignored (None or anything); shape and dtype travel with the message.  Result:
    a new array, on the root as well, or ``out``.

    Raises `DeviceError`, `AxisError`, `DTypeError` and `OutputError`, the same on every device of the group.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     return sg.broadcast(np.array([grid.rank, 7]) if grid.coords[0] == 1 else None, grid, [0], root=[1]).tolist()
    >>> sg.run_spmd(body, ranks=4)
    [[2, 7], [3, 7], [2, 7], [3, 7]]
    """

    name = "broadcast"

    def __call__(
        self,
        x: np.typing.ArrayLike | None,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        root: Sequence[int],
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._operate(x, grid, grid_axes, (root,), out)

    def start(
        self,
        x: np.typing.ArrayLike | None,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        root: Sequence[int],
        *,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  The root must not change x until then."""
        return self._begin(x, grid, grid_axes, (hashable(root),), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int] | None,
        dtype: np.typing.DTypeLike | None,
        grid_axes: GridAxes | None,
        root: Sequence[int],
        *,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (hashable(root),), path, name)

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], root: Any) -> dict[str, Any]:
        return {"root": root_index(self.name, grid, axes, root)}

    def takes_array(self, call: CollectiveCall) -> bool:
        return call.comm.rank == call.args.root

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, root = call.comm, call.args.root
        shape, dtype = shape_of(facts[root]), dtype_of(facts[root])
        check_out(self.name, facts, [shape] * comm.size, dtype, call.label)
        whole = Box.from_shape(shape)
        is_root = comm.rank == root
        transfer = Transfer(
            pattern="broadcast",
            rank=comm.rank,
            size=comm.size,
            source_shape=shape if is_root else None,
            target_shape=shape,
            sends=tuple(Send(peer, whole) for peer in range(comm.size)) if is_root and not whole.is_empty else (),
            receives=() if whole.is_empty else (Receive(root, whole, whole),),
            volume=whole.size,
            root=root,
        )
        return Movement(call, facts, transfer, shape, dtype)


broadcast = Broadcast()
