"""Groups whose members are as far apart as a test says, whatever they measure, until the test ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.kernels.protocol import slots as at

__all__ = ["distances_of_tests", "set_distance"]

_WORDS = [at.IS_FAR, at.IS_LATE, at.STREAMS]


@contextmanager
def distances_of_tests(grid: sg.ProcessGrid) -> Iterator[Meeting]:
    """The meeting of all, in which `set_distance` holds meanwhile.  Collective.

    Under MPI a meeting outlives the test: the members find their distance again in the next one.
    """
    sg.all_reduce(np.ones(1), grid, [0])
    meeting = meeting_of(grid.group((0,)))
    if not isinstance(meeting, MemoryMeeting):
        yield meeting
        return
    found = meeting.is_far, meeting.is_late, meeting.streams
    meeting.ask_distance = lambda: None  # they ask anew from time to time
    try:
        yield meeting
    finally:
        del meeting.ask_distance
        set_distance(meeting, *found)


def set_distance(meeting: Meeting, far: bool, late: bool = False, streams: bool = False) -> None:
    """Make members far apart, or words slow between them, or relays write past the caches.  Local."""
    if isinstance(meeting, MemoryMeeting):
        meeting.is_far, meeting.is_late, meeting.streams = far, late, streams
        meeting.state[_WORDS] = far, late, streams
