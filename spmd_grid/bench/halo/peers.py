"""Halo exchanges written by hand with mpi4py, as an expert would: the contenders of ``bench halo``.

A line of ranks, periodic or not, cut along one dimension.  Types, buffers, requests and argument lists are made first;
all receives are posted before the first send; each direction (and field) has its own tag.  Every way to name the data
(views of contiguous faces, a subarray type per face, one type for all fields, packed buffers) is combined with the ways
to send it (nonblocking, persistent, neighbourhood collectives).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spmd_grid.bench.common.mpi import mpi, once_and_persistent
from spmd_grid.bench.halo.cases import neighbours_of

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Datatype, Intracomm

__all__ = ["PERSISTENT", "hand_written", "split_by_hand"]

PERSISTENT = "persistent, "  # contenders with persistent point-to-point requests have names that begin with this

Update = Callable[[], object]
Layers = tuple[int, int]
Buffer = list[Any]  # a message specification of mpi4py


class _Face(NamedTuple):
    """The layers [start, stop) along the cut dimension that go to ``rank``, or come from it, by the direction's tag."""

    tag: int
    layers: Layers
    rank: int


class _Messages(NamedTuple):
    """Receives (buffer, source, tag), sends (buffer, destination, tag), and the packing before and after them."""

    receives: list[tuple[Buffer, int, int]]
    sends: list[tuple[Buffer, int, int]]
    pack: Update | None = None
    unpack: Update | None = None


class _Line:
    """The own fields and neighbours; the MPI objects of a row, which ``stack`` frees."""

    def __init__(
        self,
        comm: Intracomm,
        fields: Sequence[np.ndarray],
        dim: int,
        width: int,
        periodic: bool,
        stack: ExitStack,
    ) -> None:
        self.mpi, self.comm, self.stack = mpi(), comm, stack
        self.fields, self.dim, self.width = fields, dim, width
        below, above = neighbours_of(comm.rank, comm.size, periodic)
        n = fields[0].shape[dim]
        sent = (0, (width, 2 * width), below), (1, (n - 2 * width, n - width), above)
        received = (0, (n - width, n), above), (1, (0, width), below)
        self.sent = [_Face(tag, layers, rank) for tag, layers, rank in sent if rank is not None]
        self.received = [_Face(tag, layers, rank) for tag, layers, rank in received if rank is not None]

    def view(self, field: np.ndarray, layers: Layers) -> np.ndarray:
        return field[(slice(None),) * self.dim + (slice(*layers),)]

    def subarray(self, field: np.ndarray, layers: Layers) -> Datatype:
        part, starts = list(field.shape), [0] * field.ndim
        part[self.dim], starts[self.dim] = layers[1] - layers[0], layers[0]
        return self.keep(self.mpi.DOUBLE.Create_subarray(field.shape, part, starts).Commit())

    def all_fields(self, layers: Layers) -> Datatype:
        """One type for these layers of all fields, at their absolute addresses."""
        types = [self.subarray(field, layers) for field in self.fields]
        addresses = [self.mpi.Get_address(field) for field in self.fields]
        return self.keep(self.mpi.Datatype.Create_struct([1] * len(types), addresses, types).Commit())

    def keep(self, thing: Any) -> Any:
        """``thing``, an MPI object that is freed at the end of the row."""
        self.stack.callback(thing.Free)
        return thing

    # -- ways to name the data ---------------------------------------------------------------------------------

    def by_views(self) -> _Messages:
        """A message per field and side, from and to the contiguous faces themselves."""

        def buffer(field: np.ndarray, layers: Layers) -> Buffer:
            face = self.view(field, layers)
            return [face, face.size, self.mpi.DOUBLE]

        return self._per_field(buffer)

    def by_subarrays(self) -> _Messages:
        """A message per field and side, described by a subarray type."""
        return self._per_field(lambda field, layers: [field, 1, self.subarray(field, layers)])

    def _per_field(self, buffer: Callable[[np.ndarray, Layers], Buffer]) -> _Messages:
        receives, sends = [], []
        for number, field in enumerate(self.fields):
            receives += [(buffer(field, layers), rank, 2 * number + tag) for tag, layers, rank in self.received]
            sends += [(buffer(field, layers), rank, 2 * number + tag) for tag, layers, rank in self.sent]
        return _Messages(receives, sends)

    def by_one_type(self) -> _Messages:
        """A message per side for all fields, described by one type."""

        def messages(faces: list[_Face]) -> list[tuple[Buffer, int, int]]:
            return [([self.mpi.BOTTOM, 1, self.all_fields(layers)], rank, tag) for tag, layers, rank in faces]

        return _Messages(messages(self.received), messages(self.sent))

    def by_packing(self) -> _Messages:
        """A message per side for all fields, from and to contiguous buffers."""
        receives, sends, before, after = [], [], [], []
        for tag, layers, rank in self.received:
            incoming = self.buffer_of(layers)
            receives.append(([incoming, incoming.size, self.mpi.DOUBLE], rank, tag))
            after += [(self.view(field, layers), part) for field, part in zip(self.fields, incoming, strict=True)]
        for tag, layers, rank in self.sent:
            outgoing = self.buffer_of(layers)
            sends.append(([outgoing, outgoing.size, self.mpi.DOUBLE], rank, tag))
            before += [(part, self.view(field, layers)) for field, part in zip(self.fields, outgoing, strict=True)]
        return _Messages(receives, sends, _copying(before), _copying(after))

    def buffer_of(self, layers: Layers) -> np.ndarray:
        """A contiguous buffer for these layers of all fields."""
        return np.empty((len(self.fields), *self.view(self.fields[0], layers).shape))

    # -- ways to send it ---------------------------------------------------------------------------------------

    def nonblocking(self, messages: _Messages) -> Update:
        """Irecv and Isend at each update."""
        irecv, isend, wait_all = self.comm.Irecv, self.comm.Isend, self.mpi.Request.Waitall
        receives, sends, pack, unpack = messages
        if len(sends) == len(receives) == 1:
            (into, source, tag_in), (origin, destination, tag_out) = receives[0], sends[0]

            def move() -> None:
                wait_all([irecv(into, source, tag_in), isend(origin, destination, tag_out)])

        elif len(sends) != 2 or len(receives) != 2:

            def move() -> None:
                requests = [irecv(*receive) for receive in receives]
                requests += [isend(*send) for send in sends]
                wait_all(requests)

        else:
            (into_a, source_a, tag_a), (into_b, source_b, tag_b) = receives
            (from_a, destination_a, _), (from_b, destination_b, _) = sends

            def move() -> None:
                wait_all(
                    [
                        irecv(into_a, source_a, tag_a),
                        irecv(into_b, source_b, tag_b),
                        isend(from_a, destination_a, tag_a),
                        isend(from_b, destination_b, tag_b),
                    ]
                )

        return _between(pack, move, unpack)

    def persistent(self, messages: _Messages) -> Update:
        """Requests made once, started at each update."""
        requests = self.requests(messages)
        start_all, wait_all = self.mpi.Prequest.Startall, self.mpi.Request.Waitall

        def move() -> None:
            start_all(requests)
            wait_all(requests)

        return _between(messages.pack, move, messages.unpack)

    def requests(self, messages: _Messages) -> list[Any]:
        """Persistent requests, receives first."""
        receives = [self.keep(self.comm.Recv_init(*receive)) for receive in messages.receives]
        return receives + [self.keep(self.comm.Send_init(*send)) for send in messages.sends]

    def neighborhood(self) -> dict[str, Update]:
        """Neighbor_alltoallw, and its persistent form where the library has it.

        Both neighbours may be the same rank.  Messages between two ranks are matched in the order of the edges, so
        faces are received in the order in which they are sent: the one sent down arrives first, from above.
        (Cartesian communicators of 1 or 2 periodic ranks list "below" first on both sides, which swaps the faces.)
        """
        graph = self.keep(
            self.comm.Create_dist_graph_adjacent(
                [rank for _, _, rank in self.received], [rank for _, _, rank in self.sent], reorder=False
            )
        )
        is_one = len(self.fields) == 1

        def buffer(faces: list[_Face]) -> Buffer:
            types = [self.subarray(self.fields[0], each) if is_one else self.all_fields(each) for _, each, _ in faces]
            return [self.fields[0] if is_one else self.mpi.BOTTOM, ([1] * len(faces), [0] * len(faces)), types]

        outgoing, incoming = buffer(self.sent), buffer(self.received)
        return once_and_persistent(self.stack, graph, "Neighbor_alltoallw", outgoing, incoming)


def _copying(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Update:
    copy = np.copyto
    if len(pairs) != 2:

        def run() -> None:
            for target, source in pairs:
                copy(target, source)

    else:
        (target_a, source_a), (target_b, source_b) = pairs

        def run() -> None:
            copy(target_a, source_a)
            copy(target_b, source_b)

    return run


def _between(before: Update | None, move: Update, after: Update | None) -> Update:
    if before is None or after is None:
        return move

    def update() -> None:
        before()
        move()
        after()

    return update


@contextmanager
def hand_written(
    comm: Intracomm, fields: Sequence[np.ndarray], dim: int, width: int, periodic: bool = True
) -> Iterator[dict[str, Update]]:
    """Contenders by name: functions that, called on all ranks, refresh the halos of ``fields`` along ``dim``.

    Collective.  ``fields``: C-contiguous arrays of doubles of one shape, halos of ``width`` cells included.  MPI
    objects are freed at the end of the ``with``.
    """
    with ExitStack() as stack:
        line = _Line(comm, fields, dim, width, periodic, stack)
        ways = {"subarray types": line.by_subarrays()}
        if dim == 0:
            ways["direct views"] = line.by_views()
        if len(fields) > 1:
            ways["one type for all fields"] = line.by_one_type()
        if dim > 0 or len(fields) > 1:
            ways["numpy pack"] = line.by_packing()
        updates: dict[str, Update] = {}
        for name, messages in ways.items():
            updates[f"Isend/Irecv, {name}"] = line.nonblocking(messages)
        for name, messages in ways.items():
            updates[PERSISTENT + name] = line.persistent(messages)
        updates.update(line.neighborhood())
        yield updates


@contextmanager
def split_by_hand(comm: Intracomm, field: np.ndarray, dim: int, width: int) -> Iterator[tuple[Update, Update, Update]]:
    """(start, test, wait) of an exchange of contiguous faces by persistent requests.  Collective."""
    with ExitStack() as stack:
        line = _Line(comm, [field], dim, width, True, stack)
        requests = line.requests(line.by_views())
        start_all = line.mpi.Prequest.Startall
        test_all, wait_all = line.mpi.Request.Testall, line.mpi.Request.Waitall
        yield lambda: start_all(requests), lambda: test_all(requests), lambda: wait_all(requests)
