"""Saving: a state is written to a hidden folder, brought to the disk, agreed on, and published in one step."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, overload

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DTypeError, SpmdError, StorageError
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.ops.calls.arguments import check_grid, gate_of
from spmd_grid.storage.arguments import as_path
from spmd_grid.storage.checkpoint.making import Making
from spmd_grid.storage.checkpoint.manifest import Manifest
from spmd_grid.storage.checkpoint.options import as_json, check_options
from spmd_grid.storage.checkpoint.tree import Arrays, to_tree
from spmd_grid.storage.checkpoint.writing import BackgroundWriter
from spmd_grid.storage.checksums import check_library
from spmd_grid.storage.ranges.blocks import BLOCK_BYTES
from spmd_grid.storage.ranges.move import STAGE_BYTES
from spmd_grid.storage.team import Team

__all__ = ["Saving", "save"]

_KEPT = "the save under way"


@overload
def save(
    path: str | os.PathLike[str],
    state: Mapping[str, Any],
    keep: int | None = ...,
    *,
    wait: Literal[True] = ...,
    grid: ProcessGrid | None = ...,
    attributes: Mapping[str, Any] | None = ...,
    stage_bytes: int = ...,
    block_bytes: int = ...,
    commit: str = ...,
) -> Path: ...


@overload
def save(
    path: str | os.PathLike[str],
    state: Mapping[str, Any],
    keep: int | None = ...,
    *,
    wait: Literal[False],
    grid: ProcessGrid | None = ...,
    attributes: Mapping[str, Any] | None = ...,
    stage_bytes: int = ...,
    block_bytes: int = ...,
    commit: str = ...,
) -> Saving: ...


def save(
    path: str | os.PathLike[str],
    state: Mapping[str, Any],
    keep: int | None = None,
    *,
    wait: bool = True,
    grid: ProcessGrid | None = None,
    attributes: Mapping[str, Any] | None = None,
    stage_bytes: int = STAGE_BYTES,
    block_bytes: int = BLOCK_BYTES,
    commit: str = "rename",
) -> Path | Saving:
    """Save a state as a new checkpoint, a folder in the folder ``path``: ``path/save-000001``, and so on.

    Collective over the processes of the arrays' grids, or of ``grid``; all pass the same state.  ``state``: a dict of
    sharded arrays, numpy arrays, numbers, strings, bytes, None and random generators, and dicts, lists and tuples of
    them.  Each array becomes a ``.npy`` file; files and manifest are the same bytes for every number of processes, grid
    and sharding.  ``attributes``: a dict of JSON for the manifest, beside ``state["step"]`` if that is a whole number.

    Everything is written to a hidden folder and brought to the disk; once all processes agree that their parts are
    there, the folder gets its name.  If anything fails on any process, all raise the error, and nothing is published;
    where only the new name could not be brought to the disk, the error says that the checkpoint is there.  Nothing is
    ever overwritten, and programs that save to one path at the same time publish one checkpoint each.  What programs
    that were killed left unfinished in ``path`` is removed.  ``keep``: once this checkpoint has been read again and
    verified, older ones are removed, so that this number are left; it counts those of other programs too.
    ``commit="file"`` is for file systems that do not rename folders in one step: the files are written to the final
    folder, and the manifest, written last, publishes them.

    A process uses at most ``stage_bytes`` of memory besides its arrays.  With ``wait=False`` half of it is for copies
    of this process's blocks (`staged_bytes` tells how many bytes): those are written by a thread while the program
    computes, all others before the call returns.  The result is then a `Saving`, whose ``wait()`` publishes the
    checkpoint; the next save waits for it too.  A program that ends before ``wait()`` says so on stderr, and its save
    is given up.  Otherwise the result is the path of the new folder.  ``block_bytes``: of the blocks that have a
    checksum each.

    Raises `StorageError` where a system call fails, `DTypeError` for a value that cannot be saved, and `MismatchError`
    where processes pass different states, the same on every process.

    >>> import tempfile, numpy as np, spmd_grid as sg
    >>> def body(path):
    ...     grid = sg.init_grid((3,))
    ...     u = sg.from_global(np.arange(7), sg.Sharding(grid, [[0]]), grid)
    ...     folder = sg.save(path, {"u": u, "step": 3})
    ...     return folder.name, sg.load(path, {"u": sg.Sharding(grid, [])}, grid)["u"].local.tolist()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.run_spmd(body, folder, ranks=3)[2]
    ('save-000001', [0, 1, 2, 3, 4, 5, 6])
    """
    root = as_path("save", path)
    check_options(keep, stage_bytes, block_bytes, commit)
    check_library("save")
    arrays: Arrays = {}
    if not isinstance(state, dict):
        raise DTypeError(f"save: state is {type(state).__name__}; it must be a dict")
    tree = to_tree("save", state, arrays)
    grids = [each.grid for each in arrays.values() if isinstance(each, ShardedArray)]
    if grid is not None:
        check_grid("save", grid)
        grids.append(grid)
    elif not grids:
        grids.append(init_grid((-1,)))
    step = state.get("step")
    manifest = Manifest(tree, {}, as_json(attributes), step if type(step) is int else None)
    making = Making(root, arrays, manifest, keep, stage_bytes, block_bytes, commit == "rename")
    return gate_of("save", grids[0]).run("save", _save, making, grids, wait)


class Saving:
    """A save that goes on beside the program, made by ``save(..., wait=False)``.

    ``staged_bytes``: the memory of this process that holds copies until they are written.
    """

    def __init__(self, making: Making, team: Team, background: BackgroundWriter) -> None:
        self._making, self._team, self._background = making, team, background
        self._result: Path | SpmdError | None = None
        self.staged_bytes = background.taken

    @property
    def is_written(self) -> bool:
        """Whether this process has written its part, or failed.  Local; the checkpoint is published by `wait`."""
        return self._background.is_done

    def wait(self) -> Path:
        """Wait until all processes have written their parts, publish the checkpoint, and return its path.

        Collective over the processes that save.  May be called again.  Raises what ``save`` would have raised, the same
        on every process.
        """
        if self._result is None:
            return self._team.grid.process.gate.run("save", self.finish)
        return self.finish()

    def finish(self) -> Path:
        """As `wait`, within an operation that has passed the gate.  Collective."""
        if self._result is None:
            self._leave()
            try:
                self._result = self._making.finish(self._team, self._background)
            except SpmdError as error:
                self._result = error
        if isinstance(self._result, SpmdError):
            raise self._result
        return self._result

    def abandon(self) -> None:
        """Give up the save, as the program ends before it was waited for, and say so.  Local; waits for nothing."""
        self._leave()
        self._background.stop()
        text = self._making.abandon(self._team)
        self._result = StorageError(text)
        if self._team.is_first:
            with suppress(OSError, ValueError):  # there may be no stderr any more
                print(f"spmd_grid: {text}", file=sys.stderr, flush=True)

    def keep(self) -> None:
        """Let the next save wait for this one, and the end of the program give it up.  Local."""
        process = self._team.grid.process
        process.kept[_KEPT] = self
        process.endings.append(self.abandon)

    def _leave(self) -> None:
        process = self._team.grid.process
        process.kept.pop(_KEPT, None)
        if self.abandon in process.endings:
            process.endings.remove(self.abandon)


def _save(making: Making, grids: list[ProcessGrid], wait: bool) -> Path | Saving:
    team = Team("save", grids)
    before: Saving | None = team.grid.process.kept.get(_KEPT)
    if before is not None:
        before.finish()
    text = ""
    with team.trying():
        text = f"{making.text()}, wait={wait}"
    team.agree(text)
    background = None if wait else BackgroundWriter(making.stage_bytes // 2)
    try:
        making.begin(team)
        making.fill(team, background)
    except SpmdError:
        making.withdraw(team)
        raise
    if background is None:
        return making.finish(team, None)
    making.arrays = {}
    background.start(making.writers)
    result = Saving(making, team, background)
    result.keep()
    return result
