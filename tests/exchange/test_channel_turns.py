"""Channels whose ends have come to different exchanges: cells of one are never taken for those of the other."""

import numpy as np

import spmd_grid as sg
from spmd_grid import kernels
from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at


def test_a_message_of_another_exchange(spmd):
    """Rank 1 counts one exchange more than rank 0: both ends give up, and nothing lands."""

    def body():
        comm = sg.init_grid((2,)).group((0,))
        other, first, last = 1 - comm.rank, Cells.of_box(Box((0,), (1,))), Cells.of_box(Box((1,), (2,)))
        channel = Channel(
            comm, (2,), [np.dtype("i8")], [(other, first)], [Taken(other, last, first, (2,))], memory=False
        )
        x = np.array([comm.rank + 5, -1])
        call = channel.call([x])
        codes = [channel.run(at.UPDATE, call)]
        x[1] = -1
        words = kernels.bytes_at(channel.address, 8 * at.HEADER_WORDS).view(np.int64)
        words[at.EPOCH] += comm.rank
        codes.append(channel.run(at.UPDATE, call))
        comm.barrier()  # both messages are there
        return codes, x.tolist()

    assert spmd(2, body) == [([at.FINE, at.ENDED], [rank + 5, -1]) for rank in range(2)]
