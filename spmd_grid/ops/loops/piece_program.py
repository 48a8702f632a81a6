"""The program of a large run in pieces, as compiled code reads it: see kernels/ahead/slots.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.ahead_lines import AheadLines
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.movement.pieces import Arrival, Pieces, Position

__all__ = ["PieceProgram"]


class PieceProgram:
    """The words of ``pieces`` on the member ``me``, at ``address``.

    ``memory``: the addresses of the memories of the node's members.
    """

    def __init__(self, pieces: Pieces, lines: AheadLines, memory: Mapping[int, int], me: int):
        self._memory, self._me, self._alive = memory, me, list[Any]()
        self._copies: list[kernels.BoxRow] = [*(pieces.copies or pieces.prepared)]
        steps, inputs, leaves, takes = (list[list[int]]() for _ in range(4))
        arrivals: list[tuple[Arrival, int]] = []
        openings = pieces.openings
        for step in (*pieces.steps, *pieces.departures):
            awaited = [arrival for arrival in step.arrivals if arrival != openings.get(arrival.peer)]
            row = [len(arrivals), len(arrivals) + len(awaited), len(inputs), len(inputs) + len(step.inputs)]
            row += [memory[me] + step.into, step.elements, *self._rows(step.packs)]
            row += [len(leaves), len(leaves) + len(step.leaves), step.made, bool(step.arrivals)]
            steps.append(row)
            arrivals += [(arrival, len(arrivals) + i) for i, arrival in enumerate(awaited)]
            inputs += [self._position(position, me) for position in step.inputs]
            leaves += [[*self._position(leave.position, me), leave.peer, leave.n_bytes] for leave in step.leaves]
        for take in pieces.takes:
            position, member = self._position(take.position, take.member), lines.near.index(take.member)
            takes.append([*position, member, take.made, *self._rows(take.rows)])
        arrivals.sort(key=lambda each: each[0].order)  # as the peers send
        received = [
            [each.peer, each.at if each.lands else memory[me] + each.at, each.n_bytes, handle, each.lands]
            for each, handle in arrivals
        ]
        n_messages = len(arrivals) + len(leaves)
        lines.reserve(n_messages)
        words = self._words = np.zeros(ahead_at.PIECE_WORDS, np.int64)
        words[ahead_at.LENT], words[ahead_at.GATE] = pieces.lends, pieces.gate
        words[ahead_at.LANDS] = any(each.lands for each, _ in arrivals)
        words[ahead_at.NAPS] = at.FUTEX != 0 and bool(received) and not leaves
        words[ahead_at.STEPS], words[ahead_at.STEP_ROWS] = len(pieces.steps), self._keep(steps)
        words[ahead_at.DEPARTURES], words[ahead_at.LAST_READ] = len(pieces.departures), pieces.last_read(me)
        words[ahead_at.TAKES], words[ahead_at.TAKE_ROWS] = len(takes), self._keep(takes)
        words[ahead_at.ARRIVALS], words[ahead_at.ARRIVAL_ROWS] = len(received), self._keep(received)
        words[ahead_at.LEAVE_ROWS], words[ahead_at.INPUT_ROWS] = self._keep(leaves), self._keep(inputs)
        handles = np.zeros(n_messages * lines.posting.handle_bytes + 8, np.uint8)
        words[ahead_at.PIECE_HANDLES] = self._keep(handles)
        most = max((len(step.inputs) for step in pieces.steps), default=0)
        words[ahead_at.FOLD], words[ahead_at.FOLDED] = pieces.fold, self._keep(np.zeros(most + 1, np.int64))
        words[ahead_at.MEMORY], words[ahead_at.PREPARED] = memory[me], len(pieces.prepared)
        words[ahead_at.COPIED] = len(pieces.copies)
        table = kernels.build_table(self._copies)
        words[ahead_at.PIECE_TABLE], words[ahead_at.PIECE_COLUMNS] = self._keep(table), table.shape[1]
        self.address = kernels.address_of(words)

    def _rows(self, rows: Sequence[kernels.BoxRow]) -> tuple[int, int]:
        """Adds rows to the table; the first of them, and the end."""
        first = len(self._copies)
        self._copies += rows
        return first, len(self._copies)

    def _position(self, position: Position, member: int) -> list[int]:
        """The words of a position; IN_MEMORY stands for the memory of ``member``."""
        return [position.source, position.at + (self._memory[member] if position.source == ahead_at.IN_MEMORY else 0)]

    def _keep(self, rows: Any) -> int:
        """The address of words, which are kept."""
        kept = rows if isinstance(rows, np.ndarray) else np.array(rows or [[0]], np.int64)
        self._alive.append(kept)
        return kernels.address_of(kept)
