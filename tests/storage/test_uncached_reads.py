"""Large files are read without the page cache: the same cells, the same errors, and through the cache where need be."""

import errno
import mmap
import os

import numpy as np
import pytest
from support.storage.faults import Short
from support.storage.shared import LAYOUTS, common_folder, same_bytes, values

import spmd_grid as sg
from spmd_grid.storage import paths
from spmd_grid.storage.paths import File
from spmd_grid.storage.system import System, replace_system

UNCACHED = getattr(os, "O_DIRECT", 0)
pytestmark = pytest.mark.skipif(not UNCACHED, reason="this system has no reads without the page cache")


@pytest.fixture(autouse=True)
def all_files_are_large(monkeypatch):
    monkeypatch.setattr(paths, "_UNCACHED_FROM", 1)


class Watched(System):
    """Counts bytes that are read without the page cache, and fails with ``error`` at ``at``: "open" or "pread"."""

    def __init__(self, at=None, error=None):
        self.at, self.error, self.n_bytes, self.direct = at, error, 0, set()

    def open(self, path, flags):
        if flags & UNCACHED and self.at == "open":
            raise OSError(self.error, os.strerror(self.error))
        descriptor = super().open(path, flags)
        if flags & UNCACHED:
            self.direct.add(descriptor)
        return descriptor

    def pread(self, descriptor, buffer, offset):
        if descriptor not in self.direct:
            return super().pread(descriptor, buffer, offset)
        assert offset % mmap.PAGESIZE == 0 and len(buffer) % mmap.PAGESIZE == 0
        if self.at == "pread":
            raise OSError(self.error, os.strerror(self.error))
        done = super().pread(descriptor, buffer, offset)
        self.n_bytes += done
        return done

    def close(self, descriptor):
        self.direct.discard(descriptor)
        super().close(descriptor)


def drop(path):
    """Lets the system forget the pages of a file, which are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def reads_uncached(folder):
    """Whether the file system of a folder offers such reads, and forgets pages when asked to."""
    path = folder / "tried"
    path.write_bytes(bytes(1 << 16))
    drop(path)
    watched = Watched()
    with File.to_read(watched, "try", path) as file, file.reading_most(1 << 16):
        file.read(np.empty(100, np.uint8), 5)
    path.unlink()
    return watched.n_bytes > 0


@pytest.mark.parametrize("n, in_cache", [(1, False), (2, False), (2, True), (6, False)])
def test_cells_of_all_layouts(spmd, n, in_cache):
    """Blocks begin anywhere in pages; windows overlap; 3.1 MB is less than a window, 9.5 MB more than two."""

    def body():
        grid = sg.init_grid((n,) if n < 6 else (2, 3))
        same = []
        with common_folder(grid) as folder:
            offered = reads_uncached(folder) if grid.rank == 0 else None
            for shape in [(701, 563), (1501, 789)]:
                want = values(shape, "f8")
                saved = sg.save(folder, {"a": sg.from_global(want, sg.Sharding(grid, []), grid)}, block_bytes=1 << 20)
                for axes, more in LAYOUTS.values() if n == 6 else [([[0]], {}), ([[], [0]], {})]:
                    if grid.rank == 0 and not in_cache:
                        drop(saved / "a.npy")
                    watched = Watched()
                    replace_system(grid, watched)
                    got = sg.load(saved, {"a": sg.Sharding(grid, axes, **more)}, grid)["a"]
                    replace_system(grid, System())
                    same.append(same_bytes(got.to_global(), want) and not watched.direct)
                    if grid.rank == 0 and offered:
                        assert (watched.n_bytes > 0) != in_cache
        return all(same)

    assert all(spmd(n, body))


@pytest.mark.parametrize("at, error", [("open", errno.EINVAL), ("pread", errno.EINVAL), ("open", errno.EACCES)])
def test_a_file_system_that_refuses(spmd, at, error):
    def body():
        grid = sg.init_grid((2,))
        want = values((300, 50), "f8")
        with common_folder(grid) as folder:
            sg.save(folder, {"a": sg.from_global(want, sg.Sharding(grid, [[0]]), grid)})
            replace_system(grid, Watched(at, error))
            got = sg.load(folder, {"a": sg.Sharding(grid, [[], [0]])}, grid)["a"]
            replace_system(grid, System())
            return same_bytes(got.to_global(), want)

    assert all(spmd(2, body))


def test_a_disk_that_fails_on_one_rank(spmd):
    def body():
        grid = sg.init_grid((2,))
        with common_folder(grid) as folder:
            a = sg.from_global(values((300, 50), "f8"), sg.Sharding(grid, [[0]]), grid)
            saved = sg.save(folder, {"a": a})
            offered = reads_uncached(folder) if grid.rank == 0 else False
            if grid.rank == 0:
                drop(saved / "a.npy")
                replace_system(grid, Watched("pread", errno.EIO))
            sg.all_reduce(1, grid, None, "sum")
            try:
                sg.load(saved, {"a": sg.Sharding(grid, [[0]])}, grid)
                text = ""
            except sg.StorageError as error:
                text = str(error)
            replace_system(grid, System())
            return offered, text

    found = spmd(2, body)
    assert not found[0][0] or all("preadv" in text and "EIO" in text for _, text in found), found


def test_damage_and_short_reads(spmd):
    def body():
        grid = sg.init_grid((2,))
        want, rows = values((300, 50), "f8"), sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            saved = sg.save(folder, {"a": sg.from_global(want, rows, grid)})
            replace_system(grid, Short())
            same = same_bytes(sg.load(saved, {"a": rows}, grid)["a"].to_global(), want)
            replace_system(grid, System())
            sg.all_reduce(1, grid, None, "sum")
            if grid.rank == 0:
                with (saved / "a.npy").open("r+b") as file:
                    file.seek(70_000)
                    file.write(b"\xff")
                drop(saved / "a.npy")
            sg.all_reduce(1, grid, None, "sum")
            with pytest.raises(sg.DamagedError, match="checksum"):
                sg.load(saved, {"a": rows}, grid)
            assert len(sg.verify(saved, grid)) == 1
            return same

    assert all(spmd(2, body))


def test_a_file_that_ends_too_early(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(250)) * 100)
    drop(path)
    with File.to_read(System(), "load", path) as file, file.reading_most(30_000):
        cells = np.empty(20_000, np.uint8)
        file.read(cells, 4_999)
        assert cells.tobytes() == (bytes(range(250)) * 100)[4_999:24_999]
        with pytest.raises(sg.DamagedError, match="ends at byte 25000"):
            file.read(cells, 24_000)
