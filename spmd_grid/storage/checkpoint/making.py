"""A checkpoint that is being made: its folder and files, and the step that publishes it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DamagedError, SpmdError, StorageError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.storage.checkpoint.dtypes import dtype_to_json
from spmd_grid.storage.checkpoint.folders import Claim, claim, published, remove_checkpoint
from spmd_grid.storage.checkpoint.manifest import MANIFEST, Manifest, StoredArray
from spmd_grid.storage.checkpoint.tree import Arrays
from spmd_grid.storage.checkpoint.verify import read_manifest, verify_blocks
from spmd_grid.storage.checkpoint.writing import ArrayWriter, BackgroundWriter
from spmd_grid.storage.checksums import checksum
from spmd_grid.storage.npy_format import stored_dtype
from spmd_grid.storage.paths import File, Folders
from spmd_grid.storage.ranges.move import give_blocks
from spmd_grid.storage.ranges.padding import with_clean_padding
from spmd_grid.storage.team import Team

__all__ = ["Making"]


class Making:
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
            dtype_to_json("save", each.dtype)
        self.writers: list[ArrayWriter] = []
        self.orders: list[list[int]] = []
        self.claimed: Claim | None = None

    def text(self) -> str:
        """A line that is equal for equal states."""
        described = [f"{each.name} {each.shape} {each.dtype} {each.block_bytes}" for each in self.stored]
        plain = [np.ascontiguousarray(each) for each in self.arrays.values() if isinstance(each, np.ndarray)]
        held = [checksum(with_clean_padding(each)) for each in plain]
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

    def fill(self, team: Team, background: BackgroundWriter | None) -> None:
        """Write the blocks of all arrays, or stage them."""
        assert self.claimed is not None, "begin has claimed a folder"
        for stored, array in zip(self.stored, self.arrays.values(), strict=True):
            writer = None
            with team.trying():
                file = File.to_write(team.system, team.op, self.claimed.folder / stored.file)
                writer = ArrayWriter(file, stored.blocks, len(stored.header), background)
                self.writers.append(writer)
            team.agree()
            assert writer is not None, "a refusal raises on every process"
            sharded = array if isinstance(array, ShardedArray) else _replicated(array, team.grid)
            dealt = give_blocks(sharded, stored.blocks, writer.put, team, self.stage_bytes // (2 if background else 1))
            self.orders.append(dealt.handled(team.rank))

    def finish(self, team: Team, background: BackgroundWriter | None) -> Path:
        """Bring everything to the disk, agree, and publish; on errors remove what was written."""
        assert self.claimed is not None, "begin has claimed a folder"
        folders = Folders(team.system, team.op)
        try:
            with team.trying():
                if background is None:
                    for each in self.writers:
                        each.finish()
                else:
                    background.join()
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

    def abandon(self, team: Team) -> str:
        """Remove what was written, while a thread may be writing still; what is to be said about it.  Local."""
        assert self.claimed is not None, "begin has claimed a folder"
        if team.is_first:
            self.claimed.withdraw(Folders(team.system, team.op))
        return (
            f"save: the program ended before wait() of the save to {self.claimed.final} (wait=False); it was not"
            " published, and what was written of it is removed"
        )

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


def _replicated(array: np.ndarray, grid: ProcessGrid) -> ShardedArray:
    """A plain array, equal on all processes, as a sharded one."""
    return ShardedArray(np.ascontiguousarray(array).reshape(array.shape), Layout(Sharding(grid, []), array.shape), grid)
