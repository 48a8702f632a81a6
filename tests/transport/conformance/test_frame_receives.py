"""Receives of frames by themselves: when nobody can send them any more."""

from types import SimpleNamespace

import pytest
from support.jobs import of_mpi

# Of a group of processes 4, 7 and 9, of which 7 asks: the frames that each member had from it, and who has ended.
PROCESSES = (4, 7, 9)


def departed(**sent):
    """The processes that ended, with the number of frames that each had sent to 7; None: in this group none at all."""
    departure = of_mpi("liveness.departure").Departure
    return {
        int(process[1:]): departure(process, sent={} if n is None else {PROCESSES: [3, n, 3]})
        for process, n in sent.items()
    }


@pytest.mark.parametrize(
    ("source", "ended", "culprit"),
    [
        (0, {}, None),
        (0, {"p4": 2}, 4),  # both have been received
        (0, {"p4": 3}, None),  # the third is on its way
        (0, {"p4": 4}, None),
        (0, {"p4": None}, 4),
        (0, {"p9": 5}, None),  # somebody else
        (None, {"p4": 2}, None),  # 9 may still send one
        (None, {"p4": 2, "p9": 5}, 4),
        (None, {"p4": 3, "p9": 5}, None),
        (None, {"p4": 2, "p9": 6}, None),
        (None, {"p4": None, "p9": None}, 4),
    ],
)
def test_who_can_still_send_a_frame(source, ended, culprit):
    group = SimpleNamespace(name=b"", processes=PROCESSES, rank=1, size=3, received=[2, 0, 5])
    receive = of_mpi("mailbox").FrameReceive(group, None, bytearray(8), source)
    assert receive.ended_partner(departed(**ended)) == culprit
