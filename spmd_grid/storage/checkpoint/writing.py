"""Blocks on their way to files: written at once, or copied to staging and written by a thread beside the program."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from spmd_grid.errors import SpmdError, StorageError
from spmd_grid.storage.checksums import checksum
from spmd_grid.storage.paths import File
from spmd_grid.storage.ranges.blocks import Blocks

__all__ = ["ArrayWriter", "BackgroundWriter"]


class BackgroundWriter:
    """A thread that writes copies of blocks, of at most ``most_bytes``, while the program goes on.  Local.

    ``taken``: the bytes that have been copied.
    """

    def __init__(self, most_bytes: int):
        self.most_bytes, self.taken = most_bytes, 0
        self._waiting: list[tuple[ArrayWriter, int, np.ndarray]] = []
        self._writers: list[ArrayWriter] = []
        self._thread: threading.Thread | None = None
        self._error: SpmdError | None = None
        self._is_stopped = False

    def take(self, writer: ArrayWriter, block: int, cells: np.ndarray) -> bool:
        """Whether there was space for a copy of the block."""
        if not self.reserve(cells.nbytes):
            return False
        self._waiting.append((writer, block, cells.copy()))
        return True

    def reserve(self, n_bytes: int) -> bool:
        """Whether there was space for that many bytes, which is taken then."""
        if self.taken + n_bytes > self.most_bytes:
            return False
        self.taken += n_bytes
        return True

    def start(self, writers: list[ArrayWriter]) -> None:
        """Start the thread, which writes the copies and then ends all ``writers``."""
        self._writers = writers
        self._thread = threading.Thread(target=self._run, name="spmd_grid saving", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let the thread write no more than it is writing now.  Does not wait for it."""
        self._is_stopped = True

    @property
    def is_done(self) -> bool:
        """Whether everything is written, or has failed."""
        return self._thread is None or not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread.  Raises the error that it met."""
        if self._thread is not None:
            self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._waiting.reverse()
            while self._waiting and not self._is_stopped:
                writer, block, cells = self._waiting.pop()
                writer.write(block, cells)
                del cells
            for each in self._writers:
                if self._is_stopped:
                    each.file.close()
                else:
                    each.finish()
        except SpmdError as error:
            self._error = error
        except BaseException as error:  # surfaces where the program waits
            self._error = StorageError(f"save: {type(error).__name__}: {error}")


@dataclass
class ArrayWriter:
    """The part of one array's file that this process writes, and the checksums of its blocks.  Local."""

    file: File
    blocks: Blocks
    start: int
    background: BackgroundWriter | None = None
    checksums: dict[int, int] = field(default_factory=dict)

    def put(self, block: int, cells: np.ndarray) -> None:
        """Write a block, or stage it where there is space."""
        if self.background is None or not self.background.take(self, block, cells):
            self.write(block, cells)

    def write(self, block: int, cells: np.ndarray) -> None:
        """Write a block now."""
        start = self.start + self.blocks.offset(block)
        self.checksums[block] = checksum(cells)
        self.file.write(cells, start)  # by one call: in pieces, as blocks are read, it takes longer
        self.file.start_sync(start, cells.nbytes)

    def finish(self) -> None:
        """Bring the file to the disk and close it."""
        self.file.sync()
        self.file.close()
