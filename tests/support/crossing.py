"""The bytes that this process hands to MPI for processes that do not see its memory."""

import ctypes

import numpy as np

from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.reshard.executor.exchanges.native_collectives import NativeExchange
from spmd_grid.transport.mpi.communicator import MpiCommunicator
from spmd_grid.transport.mpi.library import MPI, MpiLibrary


class CrossedBytes:
    """``n``: the bytes of messages since it was made: single ones, those of channels, and those of compiled runs.

    The program ends where MPI's own collectives would carry cells: they cross between nodes as often as they like.
    While it ``is_planning`` they carry none.
    """

    is_planning = False

    def __init__(self):
        self.n, self._alive = 0, []
        send, run_channel, finish = MpiCommunicator.isend, Channel.run, MpiCommunicator._finish_call

        def isend(comm, buffer, destination, tag):
            if destination not in comm.near:
                self.n += len(buffer)
            return send(comm, buffer, destination, tag)

        def run(channel, function, call):
            for member in channel.outgoing:
                if member not in channel.comm.near:
                    n_cells = sum(np.prod(cells.shape) for cells in channel.gives[member])
                    self.n += int(n_cells) * channel.dtypes[0].itemsize
            return run_channel(channel, function, call)

        def native(*args):
            if self.is_planning:
                return finish(*args)
            raise SystemExit("MPI's own collectives cross as often as they like")

        posting, word = MpiLibrary.posting, ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(ctypes.c_int, word, ctypes.c_int, word, ctypes.c_int, ctypes.c_int, word, word)

        def counted(library, comm, tag):
            found = posting(library, comm, tag)
            if tag != MPI.ANY_TAG:
                return found  # meetings, of which no cells are counted
            isend_of_compiled = kind(found.isend)

            def isend(buffer, n_bytes, *others):
                self.n += n_bytes
                return isend_of_compiled(buffer, n_bytes, *others)

            self._alive.append(kind(isend))
            return found._replace(isend=ctypes.cast(self._alive[-1], word).value)

        MpiCommunicator.isend, Channel.run, MpiLibrary.posting = isend, run, counted
        MpiCommunicator._finish_call = NativeExchange.__init__ = native
