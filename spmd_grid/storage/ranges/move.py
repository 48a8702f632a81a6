"""A sharded array as blocks of its global row-major order: given to whoever stores them, or filled from them.

One process handles each block.  If processes share memory, the one that reads a block writes its cells to all cores
that hold them.  Otherwise, and when blocks are stored, cells of other processes come and go by resharding, in rounds
that keep to a limit of memory: see `deal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.storage.ranges.ahead import Ahead
from spmd_grid.storage.ranges.blocks import Blocks
from spmd_grid.storage.ranges.cores import HeldCore, cores_of_all, kept_while_written, own_core
from spmd_grid.storage.ranges.deal import Deal, Round, deal, deal_without_rounds, take_lead, take_rows
from spmd_grid.storage.ranges.even import even_parts
from spmd_grid.storage.ranges.padding import with_clean_padding
from spmd_grid.storage.team import Team

__all__ = ["STAGE_BYTES", "give_blocks", "given_deal", "take_blocks"]

# The most memory that a process uses besides its arrays, unless told otherwise: of a quarter, it gives its blocks of a
# round, and has as much for messages out of them; in two quarters, it takes blocks of two rounds, one read while the
# other is on its way, and has a quarter for messages.  The rest is for cells on their way.
STAGE_BYTES = 64 << 20
_PART = 4  # the part that blocks of one round may have
_BUFFERS = 2  # for rounds that are read ahead
_ROUNDS_AGREED = 4  # after which processes tell each other of errors

# Called with a block's number and its cells, a contiguous array, to be stored, or to be filled.
Handle = Callable[[int, np.ndarray], None]


def give_blocks(
    array: ShardedArray, blocks: Blocks, handle: Handle, team: Team, stage_bytes: int = STAGE_BYTES
) -> Deal:
    """Call ``handle`` with the cells of every block, on one process each; who handled what is returned.

    Collective over the team; a part of an operation that has passed the gate.  The cells that ``handle`` gets may
    change after it returns; bytes of them that carry no value are 0.  Its errors are raised on all processes.
    """
    layout = Layout(array.sharding, blocks.extents)
    dealt = given_deal(layout, blocks, team.processes, team.rank, stage_bytes)
    box = layout.core_box(array.grid.own_coords)
    core = array.stored_core.reshape(box.shape) if not array.shape else array.stored_core
    with team.trying():
        for block in dealt.own:
            cells = core[blocks.box(block).relative_to(box.starts).slices()]
            handle(block, with_clean_padding(np.ascontiguousarray(cells)))
    team.agree()
    for each in dealt.rounds:
        source, target = each.stretch_sharding(layout), each.block_sharding(team.grid.grid)
        local = _stretch_of(core, box, each)
        raw = _raw(local, source)
        mine = reshard_local(raw, source, target, array.grid, each.shape(blocks.extents)).view(array.dtype)
        with team.trying():
            for block, rows in each.pieces(team.rank):
                handle(block, with_clean_padding(mine[(*[slice(None)] * each.dim, rows)]))
        team.agree()
    return dealt


def given_deal(layout: Layout, blocks: Blocks, processes: Sequence[int], rank: int, stage_bytes: int) -> Deal:
    """The blocks that process ``processes[rank]`` handles in `give_blocks`.  Plans only."""
    region = Box.from_shape(blocks.extents)
    return deal(blocks, region, layout, processes, rank, stage_bytes // _PART, spread=True)


def take_blocks(
    array: ShardedArray,
    blocks: Blocks,
    dtype: np.dtype,
    handle: Handle,
    team: Team,
    stage_bytes: int = STAGE_BYTES,
    region: Box | None = None,
) -> None:
    """Fill ``array`` from blocks that ``handle`` fills, each on one process.

    Collective over the team; a part of an operation that has passed the gate.  ``dtype``: that of the blocks, which are
    converted to the array's.  ``region``: the part of the global array that ``array`` is.  Errors of ``handle`` are
    raised on all processes; the array is then filled in part.
    """
    region = region or Box.from_shape(blocks.extents)
    layout = Layout(array.sharding, region.shape)
    own, reader = own_core(array, layout), _Reader(blocks, region, dtype, handle)
    with kept_while_written(own[1], team):
        cores = cores_of_all(own, layout, team)
        if cores is not None:
            with team.trying():
                for block in deal_without_rounds(blocks, region, layout, team.processes, team.rank):
                    reader.fill(block, cores)
            team.agree()
            return
    dealt = deal(blocks, region, layout, team.processes, team.rank, stage_bytes // _PART, spread=False)
    with team.trying():
        for block in dealt.own:
            reader.fill(block, [own])
    team.agree()
    if dealt.rounds:
        _take_rounds(own, dealt.rounds, reader, layout, team, stage_bytes // 2)


class _Reader:
    """Reads blocks, and puts their cells where they belong."""

    def __init__(self, blocks: Blocks, region: Box, dtype: np.dtype, handle: Handle):
        self._blocks, self._region, self._dtype, self._handle = blocks, region, dtype, handle
        self._memory = np.empty(0, np.uint8)

    def fill(self, block: int, cores: Sequence[HeldCore]) -> None:
        """Fill the cells of a block in all of ``cores``, whose boxes are in coordinates of the region.  Local.

        It is read straight into a core that holds all of it as the file does.
        """
        whole, inside, parts = self._whole(block), self.piece(block), []
        for box, cells in cores:
            part = box.intersect(inside)
            if not part.is_empty:
                parts.append((part, cells[part.relative_to(box.starts).slices()]))
        source = next((cells for part, cells in parts if part == whole and self._is_as_stored(cells)), None)
        if source is None:
            source = self._scratch(whole)
        self._handle(block, source)
        for part, cells in parts:
            if cells is not source:
                cells[...] = source[part.relative_to(whole.starts).slices()]

    def piece(self, block: int) -> Box:
        """The cells of a block that lie in the region, in coordinates of the region.  Plans only."""
        return self._whole(block).intersect(Box.from_shape(self._region.shape))

    def _whole(self, block: int) -> Box:
        return self._blocks.box(block).relative_to(self._region.starts)

    def _is_as_stored(self, cells: np.ndarray) -> bool:
        return cells.dtype == self._dtype and cells.flags.c_contiguous

    def _scratch(self, box: Box) -> np.ndarray:
        """Memory for the cells of a block, the same for all blocks: fresh memory costs more than reading."""
        n_bytes = box.size * self._dtype.itemsize
        if len(self._memory) < n_bytes:
            self._memory = np.empty(self._blocks.rows * self._blocks.row_bytes, np.uint8)
        return self._memory[:n_bytes].view(self._dtype).reshape(box.shape)


def _take_rounds(
    own: HeldCore, rounds: Sequence[Round], reader: _Reader, layout: Layout, team: Team, most_bytes: int
) -> None:
    """Fill a core from shared blocks.  Collective.  A thread reads the next blocks while cells are on their way."""
    box, core = own
    shapes = []
    for each in rounds:
        parts = Layout(each.block_sharding(team.grid.grid), each.shape(layout.global_shape))
        shapes.append(parts.local_shape((team.rank,)))
    largest = max([prod(shape) for shape in shapes])
    n_buffers = max(1, min(most_bytes // max(largest * core.itemsize, 1), _BUFFERS, len(rounds)))
    buffers = [team.grid.allocate((largest,), core.dtype) for _ in range(n_buffers)]

    def of_round(i: int) -> np.ndarray:
        return buffers[i % n_buffers][: prod(shapes[i])].reshape(shapes[i])

    def read(i: int) -> None:
        for block, rows in rounds[i].pieces(team.rank):
            cells = of_round(i)[(*[slice(None)] * rounds[i].dim, rows)]
            reader.fill(block, [(reader.piece(block), cells)])

    with Ahead([partial(read, i) for i in range(len(rounds))], n_buffers) as ahead:
        for i, each in enumerate(rounds):
            mine = of_round(i)  # moved even after an error: others wait for it
            if not team.failed:
                with team.trying():
                    ahead.next()
            if i % _ROUNDS_AGREED == 0 or i == len(rounds) - 1:
                team.agree()
            _fill_stretch(core, box, each, mine, layout, team)
            ahead.done()


def _stretch_of(core: np.ndarray, box: Box, each: Round) -> np.ndarray:
    """This process's cells of a round's stretch: a view of its core, or a copy where they come from several places."""
    parts = [core[index] for _, index in take_rows(box, each)]
    if len(parts) == 1:
        return parts[0]
    if parts:
        return np.concatenate(parts, axis=each.dim, dtype=core.dtype)  # else of the processor's byte order
    shape = [int(start <= i < stop) for i, start, stop in zip(each.lead, box.starts, box.stops)]
    return np.empty((*shape, 0, *core.shape[each.dim + 1 :]), core.dtype)


def _fill_stretch(
    core: np.ndarray,
    box: Box,
    each: Round,
    mine: np.ndarray,
    layout: Layout,
    team: Team,
) -> None:
    """Move the cells of a round from the processes that have read them to those that hold them.  Collective."""
    target, source = each.stretch_sharding(layout), each.block_sharding(team.grid.grid)
    parts, shape = take_rows(box, each), each.shape(layout.global_shape)
    even, out = even_parts(each, layout), None
    if even is not None:
        target, source = even.sharding_of_devices(layout, target), even.sharding_of_processes(team.grid.grid)
        shape, mine = even.shape(shape), even.of_process(mine)
        out = even.of_core(core[take_lead(box, each)], box.starts[each.dim], box.stops[each.dim])
    elif len(parts) == 1:
        out = core[parts[0][1]]
    if out is not None and out.size:
        reshard_local(_raw(mine, target), source, target, team.grid, shape, _raw(out, target))
        return
    found = reshard_local(_raw(mine, target), source, target, team.grid, shape).view(core.dtype)
    for rows, index in parts if found.size else ():
        core[index] = found[(*[slice(None)] * each.dim, rows)]


def _raw(array: np.ndarray, sharding: Sharding) -> np.ndarray:
    """The array as numpy's own elements, to be moved: extension types as raw bytes, unless they must be combined."""
    if array.dtype.type.__module__ == "numpy" or sharding.partial_axes:
        return array
    return array.view(np.dtype((np.void, array.dtype.itemsize)))
