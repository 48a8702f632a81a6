"""Unfinished saves: what programs that have ended left is removed, and nothing whose owner lives or may live."""

import errno
import os

import numpy as np
import pytest
from support.same_bytes import same_bytes
from support.storage.shared import common_folder, values

import spmd_grid as sg
from spmd_grid.cli.main import main
from spmd_grid.storage import owners
from spmd_grid.storage.checkpoint.folders import claim, remove_unfinished
from spmd_grid.storage.owners import Fate, fate_of
from spmd_grid.storage.paths import Folders
from spmd_grid.storage.system import System, replace_system

HIDDEN = ".save-000001.partial"


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def end(claimed):
    """The end of the program that has claimed a number: the system closes its files, and nothing more is done."""
    claimed._owner._file.close()


@pytest.fixture
def folders():
    return Folders(System(), "save")


@pytest.mark.parametrize("renames", [True, False])
def test_a_living_program_keeps_what_it_writes(tmp_path, folders, renames):
    first = claim(folders, tmp_path, renames)
    (first.folder / "a.npy").write_bytes(b"half")
    assert fate_of(folders.system, first.hidden) is Fate.WRITTEN
    second = claim(folders, tmp_path, renames)
    assert second.hidden.name == ".save-000002.partial" and (first.folder / "a.npy").exists()
    end(first)
    assert fate_of(folders.system, first.hidden) is Fate.LEFT
    third = claim(folders, tmp_path, renames)
    assert not first.hidden.exists() and not first.folder.exists() and second.folder.exists()
    assert third.hidden.name == ".save-000003.partial"
    second.withdraw(folders)
    third.withdraw(folders)
    assert names(tmp_path) == []


def test_the_manifest_decides_over_a_folder_that_was_not_renamed(tmp_path, folders):
    for text, is_there in (("", False), ('{"format": ', False), ('{"format": "of tomorrow"}', True)):
        claimed = claim(folders, tmp_path, False)
        (claimed.final / "manifest.json").write_text(text)
        end(claimed)
        assert remove_unfinished(folders, tmp_path) == [claimed.hidden]
        assert claimed.final.exists() == is_there and not claimed.hidden.exists()


def test_a_manifest_that_is_too_large_to_be_read_is_kept(tmp_path, folders):
    claimed = claim(folders, tmp_path, False)
    with open(claimed.final / "manifest.json", "wb") as file:
        file.truncate((1 << 30) + 1)  # no memory is taken for it
    end(claimed)
    assert remove_unfinished(folders, tmp_path) == [claimed.hidden]
    assert claimed.final.exists() and not claimed.hidden.exists()


@pytest.mark.parametrize("everywhere", [True, False])
def test_locks_of_other_machines_count_where_they_hold_everywhere(tmp_path, folders, monkeypatch, everywhere):
    claimed = claim(folders, tmp_path, True)
    end(claimed)
    lock = tmp_path / ".save-000001.lock"
    lock.write_bytes(b"locked by a program in run 1234")
    monkeypatch.setattr(owners, "_holds_everywhere", lambda folder: everywhere)
    assert fate_of(folders.system, claimed.hidden) is (Fate.LEFT if everywhere else Fate.UNKNOWN)
    assert remove_unfinished(folders, tmp_path) == ([claimed.hidden] if everywhere else [])
    assert claimed.hidden.exists() != everywhere


def test_mounts_tell_where_locks_hold(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(owners, "_MOUNTS", mounts)
    base = "22 1 0:21 / / rw shared:1 - ext4 /dev/root rw\n"
    at = str(tmp_path).replace(" ", "\\040")
    for kind, options, wanted in (
        ("xfs", "rw", True),
        ("nfs4", "rw,vers=4.2,local_lock=none", True),
        ("nfs", "rw,local_lock=flock", False),
        ("lustre", "rw,flock", True),
        ("lustre", "rw,localflock", False),
        ("beegfs", "rw", False),
    ):
        mounts.write_text(f"{base}23 22 0:22 / {at} rw,relatime - {kind} server:/x {options}\n")
        assert owners._holds_everywhere(tmp_path) == wanted, kind
    mounts.unlink()
    assert not owners._holds_everywhere(tmp_path)


class NoLocks(System):
    """A file system without locks."""

    def lock(self, descriptor, path):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_without_locks_nothing_is_removed_until_somebody_asks_for_it(tmp_path, capsys):
    claimed = claim(Folders(NoLocks(), "save"), tmp_path, True)
    end(claimed)
    assert claim(Folders(System(), "save"), tmp_path, True).hidden.name == ".save-000002.partial"
    (tmp_path / ".save-000003.partial").mkdir()  # of a program that made no lock
    assert main(["checkpoint", "ls", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert f"{HIDDEN} is being written, or was left" in told and ".save-000002.partial is being written\n" in told
    assert main(["checkpoint", "clean", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"removed {HIDDEN}\nremoved .save-000003.partial\n"
    assert names(tmp_path) == [".save-000002.lock", ".save-000002.partial"]


class LastSyncFails(System):
    """A disk that fails when the folder of the last name is brought to it."""

    renamed = False

    def rename(self, source, target):
        super().rename(source, target)
        self.renamed = True

    def fsync(self, descriptor):
        if self.renamed:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fsync(descriptor)


def test_a_name_that_does_not_reach_the_disk(spmd):
    """The checkpoint is whole and stays, older ones too; the error, on all ranks, says that its name may be lost."""

    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        old, new = (sg.from_global(values((5, 3), "f4") + step, rows, grid) for step in (1, 2))
        with common_folder(grid) as folder:
            sg.save(folder, {"a": old})
            sg.save_npy(folder / "a.npy", old)
            replace_system(grid, LastSyncFails())
            with pytest.raises(sg.StorageError, match="EIO.*save-000002 is there and whole, but its name may not"):
                sg.save(folder, {"a": new}, keep=1)
            replace_system(grid, LastSyncFails())
            with pytest.raises(sg.StorageError, match="EIO.*a.npy is the new file, or after a failure of power"):
                sg.save_npy(folder / "a.npy", new)
            replace_system(grid, System())
            assert names(folder) == ["a.npy", "save-000001", "save-000002"] and sg.verify(folder, grid) == []
            for found in (sg.load(folder, {"a": rows}, grid)["a"], sg.load_npy(folder / "a.npy", rows, grid)):
                assert same_bytes(found.local, new.local)
            assert sg.save(folder, {"a": new}, keep=1).name == "save-000003"
            sg.all_reduce(1, grid, None, "sum")
            assert np.array_equal(names(folder), ["a.npy", "save-000003"])

    spmd(2, body)
