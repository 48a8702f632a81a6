"""The order of a save's steps, old checkpoints that stay until the new one is read again, and packages that lack."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from support.same_bytes import same_bytes
from support.storage.shared import common_folder, values

import spmd_grid as sg
from spmd_grid.storage.checksums import _xxhash
from spmd_grid.storage.system import System, replace_system

WANT = values((9, 7), "f8")


class Recorded(System):
    """Notes the calls that change files and folders, with the names of these."""

    def __init__(self):
        self.made = []

    def note(self, call, path):
        self.made.append((call, os.path.basename(path)))

    def pwrite(self, descriptor, data, offset):
        self.note("pwrite", os.readlink(f"/proc/self/fd/{descriptor}"))
        return super().pwrite(descriptor, data, offset)

    def fsync(self, descriptor):
        self.note("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
        super().fsync(descriptor)

    def rename(self, source, target):
        self.note("rename", target)
        super().rename(source, target)

    def mkdir(self, path):
        self.note("mkdir", path)
        super().mkdir(path)


@pytest.mark.parametrize("options", [{}, {"wait": False}, {"commit": "file"}])
def test_order_of_the_steps(spmd, options):
    def body():
        grid = sg.init_grid((2,))
        recorded = Recorded()
        with common_folder(grid) as folder:
            a = sg.from_global(WANT, sg.Sharding(grid, [[], [0]]), grid)
            sg.save(folder, {"a": a})
            replace_system(grid, recorded)
            saving = sg.save(folder, {"a": a}, block_bytes=64, stage_bytes=256, **options)
            path = saving if isinstance(saving, Path) else saving.wait()
            found = np.load(path / "a.npy", mmap_mode="r")
            assert isinstance(found, np.memmap) and same_bytes(np.asarray(found), WANT)
            return folder.name, [each for each in recorded.made if "lock" not in each[1]]

    for rank, (folder, made) in enumerate(spmd(2, body)):
        hidden, final = ".save-000002.partial", "save-000002"
        synced = made.index(("fsync", "a.npy"))
        assert {("pwrite", "a.npy")} < set(made) and ("pwrite", "a.npy") not in made[synced:]
        if rank:
            assert made[synced:] == [("fsync", "a.npy")]
            continue
        end = made[synced + 1 :]
        assert end[:2] == [("pwrite", "manifest.json"), ("fsync", "manifest.json")]
        if options.get("commit") == "file":
            assert end[2:] == [("fsync", final), ("fsync", folder)]
        else:
            assert end[2:] == [("fsync", hidden), ("rename", final), ("fsync", folder)]
            assert ("mkdir", final) not in made


class DamagedAtLast(System):
    """A disk on which a bit changes as a folder gets its name."""

    def rename(self, source, target):
        super().rename(source, target)
        raw = bytearray((target / "a.npy").read_bytes())
        raw[-1] ^= 1
        (target / "a.npy").write_bytes(raw)


def test_no_old_checkpoint_goes_before_the_new_one_verifies(spmd):
    def body():
        grid = sg.init_grid((2,))
        a = sg.from_global(WANT, sg.Sharding(grid, [[0]]), grid)
        with common_folder(grid) as folder:
            sg.save(folder, {"a": a, "step": 1})
            replace_system(grid, DamagedAtLast())
            with pytest.raises(sg.DamagedError, match="save-000002.* is damaged .*; no older checkpoint was removed"):
                sg.save(folder, {"a": a, "step": 2}, keep=1)
            replace_system(grid, System())
            assert sorted(os.listdir(folder)) == ["save-000001", "save-000002"]
            assert sg.latest(folder, grid).name == "save-000001"

    spmd(2, body)


class FarAway(System):
    """A system that does not find the files of the first process, as on a host that does not see their folder."""

    def open(self, path, flags, *more):
        if not flags & os.O_CREAT and flags & os.O_WRONLY:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return super().open(path, flags, *more)


@pytest.mark.parametrize("kind", ["checkpoint", "npy"])
def test_a_folder_that_one_host_does_not_see(spmd, kind):
    def body():
        grid = sg.init_grid((2,))
        a = sg.from_global(WANT, sg.Sharding(grid, [[0]]), grid)
        with common_folder(grid) as folder:
            replace_system(grid, FarAway() if grid.rank else System())
            with pytest.raises(sg.StorageError, match="does not exist here; save to a folder that all hosts share"):
                sg.save(folder, {"a": a}) if kind == "checkpoint" else sg.save_npy(folder / "a.npy", a)

    spmd(2, body)


LACKING = {
    "xxhash": (lambda a, at: sg.save(at, {"a": a}), "'pip install xxhash' installs it"),
    "google_crc32c": (lambda a, at: sg.save_zarr(at / "a.zarr", a), "'pip install \"zarr>=3\"' installs it"),
    "h5py": (lambda a, at: sg.save_hdf5(at / "a.h5", {"a": a}), "'pip install h5py' installs it"),
}


@pytest.mark.parametrize("package", LACKING)
def test_packages_that_lack_are_named(spmd, monkeypatch, package):
    call, words = LACKING[package]
    monkeypatch.setitem(sys.modules, package, None)
    _xxhash.cache_clear()

    def body():
        grid = sg.init_grid((2,))
        a = sg.from_global(WANT, sg.Sharding(grid, [[0]]), grid)
        with common_folder(grid) as folder:
            with pytest.raises(sg.StorageError) as raised:
                call(a, folder)
            assert words in str(raised.value) and os.listdir(folder) == []

    spmd(2, body)
    _xxhash.cache_clear()
