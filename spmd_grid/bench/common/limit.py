"""The limit of an operation on one node: each rank copies what it needs from the others' memory, and nothing else.

Ranks post a word, wait for the others' words, copy, and do so again, since sources may change only after they were
read.  That is two words and one pass, in compiled code: no arguments, no headers, no checks.  Where ranks share cores,
most of it may be waiting, so the wait for one word is a contender of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.machine import crowding
from spmd_grid.bench.common.mpi import mpi
from spmd_grid.bench.common.timing import Batch
from spmd_grid.kernels.address import give_way, load_acquire, pause, store_release
from spmd_grid.kernels.copy.vectors import move

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["Limits", "Piece", "limits", "pieces_of"]

_WORD_BYTES = 256  # before each rank's cells: no cache line has cells and a word
_CELL_BYTES = 8
_POLLS = 1000  # after which a rank that has a core of its own gives way; one that has none does so at once

# Arrays that a rank gets from others, by operation: of ``n`` ranks, the root is rank 0.
_FETCHED: dict[str, Callable[[int, int], float]] = {
    "all_gather": lambda rank, n: n - 1,
    "broadcast": lambda rank, n: min(rank, 1),
    "all_to_all": lambda rank, n: 1 - 1 / n,
    "shift": lambda rank, n: 1,
    "gather": lambda rank, n: 0 if rank else n - 1,
    "scatter": lambda rank, n: min(rank, 1) / n,
    "reduce_scatter": lambda rank, n: 1 - 1 / n,
    "all_reduce": lambda rank, n: 2 - 2 / n,
}


class Piece(NamedTuple):
    """Cells that a rank copies: the first ``size`` of those of ``rank``."""

    rank: int
    size: int


def pieces_of(op: str, rank: int, ranks: int, n_cells: int, n_result: int) -> list[Piece]:
    """The cells that ``rank`` copies in ``op``: from the ranks after it, and of its own what is left of its result.

    Local.  ``n_cells``: of each rank's array; ``n_result``: of this rank's result.  Sums are not counted.
    """
    fetched = round(_FETCHED[op.split()[0]](rank, ranks) * n_cells)
    pieces = [Piece(rank, n_result - fetched)] if n_result > fetched else []
    for step in range(1, ranks):
        size = min(fetched, n_cells)
        pieces += [Piece((rank + step) % ranks, size)] * bool(size)
        fetched -= size
    return pieces


class Limits(NamedTuple):
    """Two contenders: one moves the cells of an operation, one only waits for the other ranks.

    ``rewriting``: the compiled loop in which the source of the second is rewritten.
    """

    in_place: Contender
    waiting: Contender
    rewriting: Batch


@contextmanager
def limits(comm: Intracomm, op: str, n_cells: int, n_result: int) -> Iterator[Limits | None]:
    """The limits of ``op`` on arrays of doubles; None where ranks share no memory.

    Collective.  The source of the first is this rank's array, in memory that all ranks share.
    """
    MPI = mpi()
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        if any(comm.allgather(node.size != comm.size)):
            yield None
            return
        window = MPI.Win.Allocate_shared(_WORD_BYTES + n_cells * _CELL_BYTES, _CELL_BYTES, comm=node)
        try:
            memory = [np.frombuffer(window.Shared_query(rank)[0], np.uint8) for rank in range(comm.size)]
            words = np.array([each.ctypes.data for each in memory])
            memory[comm.rank][:_WORD_BYTES] = 0
            source = memory[comm.rank][_WORD_BYTES:].view(np.float64)
            pieces = np.array(pieces_of(op, comm.rank, comm.size, n_cells, n_result), np.int64).reshape(-1, 2)
            target, rank = np.empty(int(pieces[:, 1].sum())), comm.rank
            polls, nothing = 0 if crowding(comm) else _POLLS, np.zeros(1)
            comm.Barrier()
            yield Limits(
                Contender(lambda: _move(words, rank, polls, pieces, target), source, target),
                Contender(
                    lambda: _meet(words, rank, polls, nothing, 1),
                    nothing,
                    loop=lambda n: _meet(words, rank, polls, nothing, n),
                ),
                lambda n: _rewrite(nothing, n),
            )
            comm.Barrier()
        finally:
            window.Free()
    finally:
        node.Free()


@numba.njit(nogil=True)
def _agree(words: np.ndarray, rank: int, polls: int) -> None:
    """Wait until all ranks are here."""
    number = load_acquire(words[rank]) + 1
    store_release(words[rank], number)
    for word in words:
        left = polls
        while load_acquire(word) < number:
            if left:
                left -= 1
                pause()
            else:
                left = polls
                give_way()


@numba.njit(nogil=True)
def _rewrite(source: np.ndarray, n: int) -> None:
    for value in range(n):
        source[:] = value


@numba.njit(nogil=True)
def _meet(words: np.ndarray, rank: int, polls: int, source: np.ndarray, n: int) -> None:
    for value in range(n):
        source[:] = value
        _agree(words, rank, polls)


@numba.njit(nogil=True)
def _move(words: np.ndarray, rank: int, polls: int, pieces: np.ndarray, target: np.ndarray) -> None:
    _agree(words, rank, polls)
    start = 0
    for i in range(len(pieces)):
        other, size = pieces[i]
        move(words[other] + _WORD_BYTES, target.ctypes.data + start * _CELL_BYTES, size * _CELL_BYTES)
        start += size
    _agree(words, rank, polls)
