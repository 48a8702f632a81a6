"""Programs in which the system copies arrays that are smaller than those that it copies as a rule."""

from __future__ import annotations

import numpy as np

import spmd_grid as sg
from spmd_grid.exchange.agreement import memory_meeting
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.transfer.fetch import FetchProgram

__all__ = ["in_meeting"]


def in_meeting(body, monkeypatch, *args):
    """Run ``body``, in which arrays of over 64 KiB may be fetched; how often they were, and whether they can be."""
    monkeypatch.setattr(memory_meeting, "_PACKED", 1 << 16)
    copies, run = [], FetchProgram.run
    monkeypatch.setattr(FetchProgram, "run", lambda self, result: (copies.append(1), run(self, result))[1])
    grid = sg.init_grid((-1,))
    sg.all_reduce(np.ones(1), grid, [0])
    meeting = meeting_of(grid.group((0,)))
    meeting._processes = None  # which other tests may have found
    fetches = isinstance(meeting, MemoryMeeting) and meeting.relays and meeting.fetches()
    copies.clear()
    body(grid, *args)
    meeting._processes = None
    return len(copies), fetches
