"""Halo exchanges by hand on a grid of two axes: a message to each neighbour, and one message to each other node.

No corners, nothing periodic.  The second way is for grids whose first axis goes from node to node: the faces of all
ranks of a node lie one after the other in memory that they share, and the first rank sends them as one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.bench.common.mpi import mpi
from spmd_grid.grid.device_grid import Grid

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["FUSED", "hand_written"]

FUSED = "a message per pair of nodes"
_EACH = "persistent, packed"

Update = Callable[[], object]


class _Face:
    """The cells of ``field`` that go to the neighbour, and the halo cells that come from it."""

    def __init__(self, field: np.ndarray, dim: int, side: int):
        def layer(start: int) -> np.ndarray:
            index = [slice(1, -1)] * field.ndim
            index[dim] = slice(start, start + 1)
            return field[tuple(index)]

        last = field.shape[dim] - 1
        self.given, self.halo = (layer(1), layer(0)) if side < 0 else (layer(last - 1), layer(last))


@contextmanager
def hand_written(comm: Intracomm, grid: Grid, field: np.ndarray, node_of: Sequence[int]) -> Iterator[dict[str, Update]]:
    """Contenders by name: functions that refresh the halo of width 1 of ``field``.

    Collective.  MPI objects are freed at the end of the ``with``.
    """
    with ExitStack() as stack:
        coords = grid.multi_index(comm.rank)
        faces: dict[int, _Face] = {}
        for dim, side in ((0, -1), (0, 1), (1, -1), (1, 1)):
            there = [c + side * (a == dim) for a, c in enumerate(coords)]
            if 0 <= there[dim] < grid.shape[dim]:
                faces[grid.linear_index(there)] = _Face(field, dim, side)
        updates = {_EACH: _per_neighbour(comm, faces, stack)}
        if _is_node_per_row(grid, node_of):
            updates[FUSED] = _per_node(comm, grid, coords[0], faces, stack)
        yield updates


def _is_node_per_row(grid: Grid, node_of: Sequence[int]) -> bool:
    return grid.shape[0] > 1 and [rank // grid.shape[1] for rank in range(grid.size)] == list(node_of)


def _per_neighbour(comm: Intracomm, faces: dict[int, _Face], stack: ExitStack) -> Update:
    given = [(face.given, np.empty(face.given.shape)) for face in faces.values()]
    taken = [(face.halo, np.empty(face.halo.shape)) for face in faces.values()]
    requests = [comm.Recv_init(buffer, rank) for rank, (_, buffer) in zip(faces, taken)]
    requests += [comm.Send_init(buffer, rank) for rank, (_, buffer) in zip(faces, given)]
    for request in requests:
        stack.callback(request.Free)
    start_all, wait_all = mpi().Prequest.Startall, mpi().Request.Waitall

    def update() -> None:
        for face, buffer in given:
            buffer[...] = face
        start_all(requests)
        wait_all(requests)
        for face, buffer in taken:
            face[...] = buffer

    return update


def _per_node(comm: Intracomm, grid: Grid, row: int, faces: dict[int, _Face], stack: ExitStack) -> Update:
    """Faces to other nodes through memory that the node shares; the others by a message to each neighbour."""
    node = comm.Split(row, comm.rank)
    stack.callback(node.Free)
    within = {rank: face for rank, face in faces.items() if rank // grid.shape[1] == row}
    beyond = {rank: face for rank, face in faces.items() if rank not in within}
    near = _per_neighbour(comm, within, stack)
    moves: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    requests: list[Any] = []
    for other in (row - 1, row + 1):
        if not 0 <= other < grid.shape[0]:
            continue
        face = next(face for rank, face in beyond.items() if rank // grid.shape[1] == other)
        out, into = (_shared(node, face.given.size, stack) for _ in range(2))
        own = slice(node.rank * face.given.size, (node.rank + 1) * face.given.size)
        moves.append((face.given, out[own].reshape(face.given.shape), face.halo, into[own].reshape(face.halo.shape)))
        if node.rank == 0:
            first = other * grid.shape[1]
            requests += [comm.Recv_init(into, first, 1), comm.Send_init(out, first, 1)]
    for request in requests:
        stack.callback(request.Free)
    start_all, wait_all, together = mpi().Prequest.Startall, mpi().Request.Waitall, node.Barrier

    def update() -> None:
        for given, out, _, _ in moves:
            out[...] = given
        together()
        start_all(requests)
        near()
        wait_all(requests)
        together()
        for _, _, halo, into in moves:
            halo[...] = into

    return update


def _shared(node: Intracomm, cells: int, stack: ExitStack) -> np.ndarray:
    """Memory for ``cells`` doubles of each rank of a node, which all of them see.  Collective."""
    window = mpi().Win.Allocate_shared(0 if node.rank else 8 * cells * node.size, 8, comm=node)
    stack.callback(window.Free)
    memory, _ = window.Shared_query(0)
    return np.ndarray(cells * node.size, np.float64, memory)
