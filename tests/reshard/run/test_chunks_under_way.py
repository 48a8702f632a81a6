"""Chunks of an exchange: two are under way at a time, and finish in the order in which they began."""

import numpy as np

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.executor.exchanges.chunked_exchange import ChunkedExchange
from spmd_grid.reshard.geometry.messages import Redistribution


class Recording:
    """A communicator that notes, whenever a chunk is waited for, which one, and how many have begun."""

    def __init__(self, comm):
        self._comm, self._chunks, self._requests = comm, [], {}
        self.waits = []

    def __getattr__(self, name):
        return getattr(self._comm, name)

    def isend(self, buffer, destination, tag):
        return self._begun(self._comm.isend(buffer, destination, tag), tag)

    def irecv(self, buffer, source, tag):
        return self._begun(self._comm.irecv(buffer, source, tag), tag)

    def _begun(self, requests, tag):
        if tag not in self._chunks:
            self._chunks.append(tag)
        self._requests |= {id(request): (self._chunks.index(tag), request) for request in requests}
        return requests

    def wait_all(self, requests):
        self.waits.append((self._requests[id(requests[0])][0], len(self._chunks)))
        self._comm.wait_all(requests)


def test_while_a_chunk_is_waited_for_the_next_is_under_way(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows, columns = (Layout(sg.Sharding(grid, split), (8, 8)) for split in ([[0]], [[], [0]]))
        comm, values = Recording(grid.group((0,))), np.arange(64).reshape(8, 8)
        exchange = ChunkedExchange(Redistribution(rows, columns), [values.dtype], comm, 4)
        result = np.empty((8, 4), values.dtype)
        exchange.run([values[rows.core_box(grid.coords).slices()]], [result])
        assert np.array_equal(result, values[columns.core_box(grid.coords).slices()])
        return comm.waits

    assert spmd(2, body) == 2 * [[(0, 2), (1, 3), (2, 4), (3, 4)]]
