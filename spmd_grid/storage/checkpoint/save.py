"""Saving: a state is written to a hidden folder, brought to the disk, agreed on, and published in one step."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DamagedError, DTypeError, SpmdError, StorageError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_path
from spmd_grid.storage.checkpoint.folders import Claim, claim, published, remove_checkpoint
from spmd_grid.storage.checkpoint.manifest import MANIFEST, Manifest, StoredArray
from spmd_grid.storage.checkpoint.options import BLOCK_BYTES, as_json, check_options
from spmd_grid.storage.checkpoint.tree import Arrays, to_tree
from spmd_grid.storage.checkpoint.verify import read_manifest, verify_blocks
from spmd_grid.storage.checkpoint.writing import ArrayWriter, Stage
from spmd_grid.storage.checksums import check_library, checksum
from spmd_grid.storage.npy_format import stored_dtype
from spmd_grid.storage.ranges.move import STAGE_BYTES, give_blocks
from spmd_grid.storage.system import File, Folders
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
    checkpoint; the next save waits for it too.  Otherwise the result is the path of the new folder.  ``block_bytes``:
    of the blocks that have a checksum each.

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
    if grid is not None or not grids:
        grids.append(init_grid((-1,)) if grid is None else grid)
    step = state.get("step")
    manifest = Manifest(tree, {}, as_json(attributes), step if type(step) is int else None)
    making = _Making(root, arrays, manifest, keep, stage_bytes, block_bytes, commit == "rename")
    return gate_of("save", grids[0]).run("save", _save, making, grids, wait)


class Saving:
    """A save that goes on beside the program, made by ``save(..., wait=False)``.

    ``staged_bytes``: the memory of this process that holds copies until they are written.
    """

    def __init__(self, making: _Making, team: Team, stage: Stage):
        self._making, self._team, self._stage = making, team, stage
        self._result: Path | SpmdError | None = None
        self.staged_bytes = stage.taken

    @property
    def is_written(self) -> bool:
        """Whether this process has written its part, or failed.  Local; the checkpoint is published by `wait`."""
        return self._stage.is_done

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
            self._team.grid.process.kept.pop(_KEPT, None)
            try:
                self._result = self._making.finish(self._team, self._stage)
            except SpmdError as error:
                self._result = error
        if isinstance(self._result, SpmdError):
            raise self._result
        return self._result


class _Making:
    """A checkpoint that is being made: what it is to hold, and what has been written of it."""

    def __init__(
        self,
        root: Path,
        arrays: Arrays,
        manifest: Manifest,
        keep: int | None,
        stage_bytes: int,
        block_bytes: int,
        renames: bool,
    ):
        self.root, self.arrays, self.manifest, self.keep = root, arrays, manifest, keep
        self.stage_bytes, self.renames = stage_bytes, renames
        self.stored = [StoredArray(name, each.shape, each.dtype, block_bytes) for name, each in arrays.items()]
        for each in self.stored:
            stored_dtype("save", each.dtype)
        self.writers: list[ArrayWriter] = []
        self.orders: list[list[int]] = []
        self.claimed: Claim | None = None

    def text(self) -> str:
        """A line that is equal for equal states."""
        described = [f"{each.name} {each.shape} {each.dtype} {each.block_bytes}" for each in self.stored]
        held = [checksum(np.ascontiguousarray(each)) for each in self.arrays.values() if isinstance(each, np.ndarray)]
        words = json.dumps([self.manifest.tree, self.manifest.attributes, described, held])
        digest = hashlib.sha256(words.encode()).hexdigest()[:16]
        options = f"keep={self.keep}, {self.stage_bytes} bytes, {'rename' if self.renames else 'file'}"
        return f"{self.root}, {len(self.stored)} arrays, {options}, state {digest}"

    def begin(self, team: Team) -> None:
        """Claim a folder, and make the files of all arrays with their headers."""
        folders, name = Folders(team.system, team.op), b""
        with team.trying():
            if team.is_first:
                self.claimed = claim(folders, self.root, self.renames)
                name = self.claimed.final.name.encode()
        team.agree()
        name = team.tell(name)
        self.claimed = self.claimed or Claim(self.root, int(name.decode().removeprefix("save-")), self.renames)
        with team.trying():
            for each in self.stored if team.is_first else ():
                with File.create(team.system, team.op, self.claimed.folder / each.file) as file:
                    file.truncate(each.n_bytes)
                    file.write(each.header, 0)  # which `finish` brings to the disk with the cells
        team.agree()

    def fill(self, team: Team, stage: Stage | None) -> None:
        """Write the blocks of all arrays, or stage them."""
        assert self.claimed is not None, "begin has claimed a folder"
        for stored, array in zip(self.stored, self.arrays.values(), strict=True):
            writer = None
            with team.trying():
                file = File.to_write(team.system, team.op, self.claimed.folder / stored.file)
                writer = ArrayWriter(file, stored.blocks, len(stored.header), stage)
                self.writers.append(writer)
            team.agree()
            assert writer is not None, "a refusal raises on every process"
            sharded = array if isinstance(array, ShardedArray) else _replicated(array, team.grid)
            dealt = give_blocks(sharded, stored.blocks, writer.put, team, self.stage_bytes // (2 if stage else 1))
            self.orders.append(dealt.handled(team.rank))

    def finish(self, team: Team, stage: Stage | None) -> Path:
        """Bring everything to the disk, agree, and publish; on errors remove what was written."""
        assert self.claimed is not None, "begin has claimed a folder"
        folders = Folders(team.system, team.op)
        try:
            with team.trying():
                if stage is None:
                    for each in self.writers:
                        each.finish()
                else:
                    stage.join()
            team.agree()
            data = self._gather_manifest(team).to_bytes()
            with team.trying():
                if team.is_first:
                    with File.create(team.system, team.op, self.claimed.folder / MANIFEST) as file:
                        file.write(data, 0)
                        file.sync()
                    self.claimed.publish(folders)
            team.agree()
        except SpmdError:
            self.withdraw(team)
            raise
        if self.keep is not None:
            self._remove_old(team, folders)
        return self.claimed.final

    def withdraw(self, team: Team) -> None:
        """Close the files and remove what was not published, as far as possible."""
        for each in self.writers:
            with suppress(StorageError):
                each.file.close()
        if team.is_first and self.claimed is not None:
            self.claimed.withdraw(Folders(team.system, team.op))

    def _gather_manifest(self, team: Team) -> Manifest:
        """The manifest with the checksums of all processes."""
        arrays = {}
        for stored, writer, order in zip(self.stored, self.writers, self.orders, strict=True):
            mine = np.array([[block, writer.checksums[block]] for block in order], np.uint64).reshape(-1, 2)
            found = team.gather(mine)
            sums = [int(number) for number in found[np.argsort(found[:, 0]), 1]]
            arrays[stored.name] = replace(stored, checksums=tuple(sums))
        return replace(self.manifest, arrays=arrays)

    def _remove_old(self, team: Team, folders: Folders) -> None:
        """Remove the oldest checkpoints, once the new one has been read and is whole."""
        assert self.claimed is not None and self.keep is not None, "there is a new checkpoint, and a number to keep"
        is_there = False
        with team.trying():
            is_there = self._check_new(team, folders)
        team.agree()
        with team.trying():
            if team.is_first and is_there:
                whole = []
                for number, folder in published(folders, self.root):
                    with suppress(DamagedError):
                        read_manifest(team.system, team.op, folder)
                        whole.append((number, folder))
                for _, folder in whole[: -self.keep]:
                    if folder != self.claimed.final:
                        remove_checkpoint(folders, folder)
        team.agree()

    def _check_new(self, team: Team, folders: Folders) -> bool:
        """Whether the new checkpoint is there and whole, as far as this process's share of it goes.

        Local.  Raises DamagedError where it is damaged.  Another program that keeps few may have removed it already,
        for a newer one.
        """
        assert self.claimed is not None, "begin has claimed a folder"
        final = self.claimed.final
        try:
            manifest = read_manifest(team.system, team.op, final)
            problems = verify_blocks(team.system, team.op, final, manifest, team.rank, team.size)
        except DamagedError as error:
            problems = [str(error)]
        if problems and MANIFEST not in folders.names(final):
            if any(number > self.claimed.number for number, _ in published(folders, self.root)):
                return False
        if problems:
            raise DamagedError(f"save: {problems[0]}; no older checkpoint was removed")
        return True


def _save(making: _Making, grids: list[ProcessGrid], wait: bool) -> Path | Saving:
    team = Team("save", grids)
    before: Saving | None = team.grid.process.kept.get(_KEPT)
    if before is not None:
        before.finish()
    text = ""
    with team.trying():
        text = f"{making.text()}, wait={wait}"
    team.agree(text)
    stage = None if wait else Stage(making.stage_bytes // 2)
    try:
        making.begin(team)
        making.fill(team, stage)
    except SpmdError:
        making.withdraw(team)
        raise
    if stage is None:
        return making.finish(team, None)
    making.arrays = {}
    stage.start(making.writers)
    result = team.grid.process.kept[_KEPT] = Saving(making, team, stage)
    return result


def _replicated(array: np.ndarray, grid: ProcessGrid) -> ShardedArray:
    """A plain array, equal on all processes, as a sharded one."""
    return ShardedArray(np.ascontiguousarray(array).reshape(array.shape), Layout(Sharding(grid, []), array.shape), grid)
