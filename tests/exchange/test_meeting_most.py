"""The largest of members' numbers, by whatever way they meet."""

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.meeting import Meeting


def test_most(spmd):
    """Again and again with nothing between: who is a step ahead must not be heard by who is a step behind."""

    def body():
        comm = sg.init_grid((3,)).group((0,))
        for meeting in (meeting_of(comm), Meeting(comm)):
            for n in range(60):
                brought = [(7 * n + 5 * rank) % 11 + (rank << 40) * (n % 2) for rank in range(3)]
                assert meeting.most(brought[comm.rank]) == max(brought)

    spmd(3, body)
