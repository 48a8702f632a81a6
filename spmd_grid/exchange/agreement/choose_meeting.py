"""The choice of how the members of a group meet, by the memory that they can see of one another."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import TransportError
from spmd_grid.exchange.agreement.crossing_meeting import (
    CrossingMeeting,
    carried_memory,
    each_carries,
    lines_cross_once,
)
from spmd_grid.exchange.agreement.frame_swap import swap_in_frame
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.mixed_meeting import MixedMeeting
from spmd_grid.exchange.agreement.node_meeting import COPIED_BYTES, MEETING_BLOCK_BYTES, NodeMeeting
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.nodes.stage import Stage, stage_memory
from spmd_grid.exchange.transfer.machine_model import MachineModel, cached_model, keep_model, measure_model
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator

__all__ = ["meeting_of"]

# A member's block in its segment, the first member of its node, its stage in the segment, and its size.
_BLOCKS_AND_STAGES = "4q"


def meeting_of(comm: Communicator) -> Meeting:
    """The meetings of the members of ``comm``; made by the first call, which is collective."""
    if comm.meeting is None:
        comm.meeting = _make(comm)
    return comm.meeting


def _make(comm: Communicator) -> Meeting:
    if comm.shares_objects or comm.size == 1:
        return Meeting(comm)
    arena = comm.process.arena
    members = sorted([comm.rank, *comm.near])
    block = arena.allocate(MEETING_BLOCK_BYTES, zeroed=True) if comm.near else None
    offset = -1 if block is None else arena.offset_of(kernels.address_of(block), block.nbytes)
    memory = None if comm.shares_memory else stage_memory(comm.process, bool(comm.near))
    staged = -1 if memory is None else arena.offset_of(kernels.address_of(memory), memory.nbytes)
    stage_bytes = 0 if memory is None else memory.nbytes
    mine = struct.pack(_BLOCKS_AND_STAGES, offset, members[0], staged, stage_bytes)
    swapped = [struct.unpack(_BLOCKS_AND_STAGES, each) for each in swap_in_frame(comm, mine)]
    offsets = [each[0] for each in swapped]
    if comm.shares_memory and min(offsets) < 0:  # no space in the arena: on all members alike
        return Meeting(comm)
    if block is None or (not comm.shares_memory and any(offsets[member] < 0 for member in members)):
        members, block = [comm.rank], np.zeros(MEETING_BLOCK_BYTES, np.uint8)
        comm.near = []
    addresses = [kernels.address_of(block)] * len(members)
    for i, member in enumerate(members):
        base = arena.base_of(comm.processes[member])
        if member != comm.rank and base is not None:
            addresses[i] = base + offsets[member]
    if not comm.shares_memory:
        firsts = [first for _, first, _, _ in swapped]
        short = {first for own, first, _, _ in swapped if own < 0}  # nodes without space, which share nothing
        nodes = NodeMap.from_firsts([i if first in short else first for i, first in enumerate(firsts)])
        meeting = _crossing_meeting(comm, nodes, members, block, addresses) or MixedMeeting(
            comm, members, block, addresses
        )
        meeting.nodes = nodes
        least = min(n_bytes for *_, n_bytes in swapped)
        if nodes.is_shared and least and memory is not None:
            bases = {i: arena.base_of(comm.processes[i]) for i in members}
            stages = {i: base + swapped[i][2] for i, base in bases.items() if base is not None}
            stages[comm.rank] = kernels.address_of(memory)
            meeting.stage = Stage(comm, nodes, least, stages, meeting.together)
        return meeting
    in_memory = MemoryMeeting(comm, members, block, addresses)
    if comm.times_well:
        in_memory.ask_distance()
        in_memory.model = _agreed_model(comm)
        in_memory.copied_bytes = in_memory.model.copied_bytes(at.LINE_ARRAY_BYTES, COPIED_BYTES)
    return in_memory


def _crossing_meeting(
    comm: Communicator, nodes: NodeMap, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]
) -> CrossingMeeting | None:
    """The meeting in lines that cross once between nodes; None where it does not suit, alike on all.  Collective."""
    if not lines_cross_once(nodes):
        return None
    own = each_carries(comm, nodes)
    arena, n_bytes = comm.process.arena, carried_memory(nodes, comm.rank, own)
    memory = arena.allocate(n_bytes, zeroed=True) if comm.near and n_bytes else np.zeros(n_bytes, np.uint8)
    address = 0 if memory is None else kernels.address_of(memory)
    offset = -1 if memory is None else max(arena.offset_of(address, n_bytes), 0)
    offsets = [struct.unpack("q", each)[0] for each in swap_in_frame(comm, struct.pack("q", offset))]
    if memory is None or min(offsets) < 0:
        return None
    bases = {i: base for i in comm.near if (base := arena.base_of(comm.processes[i])) is not None}
    memories = {i: base + offsets[i] for i, base in bases.items()} | {comm.rank: address}
    near = NodeMeeting(comm, members, block, addresses)
    blocks = dict(zip(members, addresses, strict=True))
    return CrossingMeeting(near, blocks, nodes, memory, memories, own)


def _agreed_model(comm: Communicator) -> MachineModel:
    """The model that the first member has, or times with the second.  Collective."""
    model = cached_model(comm.library)
    for _ in range(2):
        mine = struct.pack("3d", *((0, 0, 0) if model is None else astuple(model)))
        first = struct.unpack("3d", swap_in_frame(comm, mine)[0])
        if all(first):
            return MachineModel(*first)
        model = measure_model(comm)
        if comm.rank == 0 and model is not None:
            keep_model(comm.library, model)
    raise TransportError("the first member of a group has timed nothing")
