"""Machine code is loaded only from files and folders that no other user can have written."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spmd_grid import own_files
from spmd_grid.kernels import machine_code
from spmd_grid.own_files import Stranger, make_folder, problem_of, read_own, strange_file, write_own

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def folder(tmp_path):
    """A folder of this user's own with a file in it."""
    found = Path(os.path.realpath(tmp_path)) / "kept"
    make_folder(found, 0o755)
    write_own(found, "file", b"code")
    return found


@pytest.fixture
def give_away(monkeypatch):
    """A function that gives a file or folder to another user, who is not root."""

    def chown(path):
        if os.geteuid():  # this user becomes another one instead, of whom nothing here is
            monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
        else:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    return chown


def test_own_files_are_read(folder):
    assert problem_of(folder) == problem_of(folder / "missing" / "below") == ""
    assert read_own(folder, "file", 100) == b"code" and strange_file(folder, "file") == ""
    with pytest.raises(FileNotFoundError):
        read_own(folder, "missing", 100)
    assert read_own(folder, "file", 4) == b"code"
    with pytest.raises(OSError, match="it has 4 bytes; at most 3 are read"):
        read_own(folder, "file", 3)


@pytest.mark.parametrize("mask", [0, 0o002, 0o077])
def test_what_is_written_is_own_whatever_the_mask(tmp_path, mask):
    before = os.umask(mask)
    try:
        folder = Path(os.path.realpath(tmp_path)) / "above" / "kept"
        make_folder(folder, 0o755)
        write_own(folder, "file", b"first")
        write_own(folder, "file", b"second")
    finally:
        os.umask(before)
    assert problem_of(folder) == "" and read_own(folder, "file", 100) == b"second"
    assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o644
    assert os.listdir(folder) == ["file"]  # no part of one is left


def test_a_file_that_cannot_be_written_leaves_nothing(folder):
    (folder / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_own(folder, "taken", b"code")
    assert sorted(os.listdir(folder)) == ["file", "taken"]


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_folder_to_which_others_may_write(folder, mode):
    folder.chmod(mode)
    assert problem_of(folder) == f"other users may write to {folder}"
    with pytest.raises(Stranger, match="other users may write"):
        read_own(folder, "file", 100)
    with pytest.raises(Stranger, match="other users may write"):
        write_own(folder, "another", b"code")


def test_a_folder_above_to_which_others_may_write(folder):
    folder.parent.chmod(0o777)
    assert problem_of(folder) == problem_of(folder / "missing") == f"other users may write to {folder.parent}"
    folder.parent.chmod(0o1777)  # sticky: others may add to it, but neither remove nor rename what is there
    assert problem_of(folder) == ""


@pytest.mark.parametrize("members", [{"root"}, {"root", "somebody"}])
def test_a_group_may_write_if_it_is_the_users_alone(folder, monkeypatch, members):
    folder.chmod(0o775)
    monkeypatch.setattr(own_files, "_is_mine_alone", lambda group: members == {"root"})
    assert bool(problem_of(folder)) == ("somebody" in members)


def test_a_group_of_the_user_alone_does_not_tell_of_users_that_are_listed(folder, monkeypatch):
    folder.chmod(0o775)
    monkeypatch.setattr(own_files, "_is_mine_alone", lambda group: True)
    monkeypatch.setattr(os, "listxattr", lambda path, follow_symlinks: ["system.posix_acl_access"])
    assert problem_of(folder) == f"other users may write to {folder}"


def test_a_folder_of_another_user(folder, give_away):
    give_away(folder)
    assert "belongs to another user" in problem_of(folder)
    with pytest.raises(Stranger, match="belongs to another user"):
        read_own(folder, "file", 100)


def test_a_file_of_another_user(folder, give_away):
    give_away(folder / "file")
    with pytest.raises(Stranger, match="belongs to another user"):
        read_own(folder, "file", 100)


def test_a_file_to_which_others_may_write(folder):
    (folder / "file").chmod(0o666)
    assert strange_file(folder, "file") == f"other users may write to {folder / 'file'}"
    assert strange_file(folder, "another") == ""
    with pytest.raises(Stranger, match="other users may write"):
        read_own(folder, "file", 100)


def test_links_are_not_followed(folder):
    (folder / "link").symlink_to(folder / "file")
    (folder.parent / "link").symlink_to(folder)
    with pytest.raises(OSError, match="link"):
        read_own(folder, "link", 100)
    with pytest.raises(OSError, match="link"):
        read_own(folder.parent / "link", "file", 100)
    assert "is a link" in strange_file(folder, "link") and "is a link" in problem_of(folder.parent / "link")


def test_a_pipe_keeps_nobody_waiting(folder):
    os.mkfifo(folder / "pipe", 0o600)
    with pytest.raises(Stranger, match="is a link, or something else"):
        read_own(folder, "pipe", 100)


@pytest.mark.parametrize(("rank", "times"), [(None, 1), ("0", 1), ("1", 0)])
def test_a_line_is_printed_once_on_the_first_rank(monkeypatch, capsys, rank, times):
    monkeypatch.setattr(own_files, "_noted", set())
    monkeypatch.setattr(own_files, "given_rank", lambda environment: rank)
    for text in "others may write there", "others may write there too":
        own_files.note(Path("/folder"), text)
    assert capsys.readouterr().err == "spmd_grid: others may write there\n" * times


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Two folders of kernels: the one that is set for all users, and this user's."""
    shared, own = (Path(os.path.realpath(tmp_path)) / name for name in ("shared", "own"))
    shared.mkdir(mode=0o755)
    own.mkdir(mode=0o700)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    for function in (machine_code.refused, machine_code._first_folder, machine_code._folders):
        function.cache_clear()
    monkeypatch.setattr(own_files, "_noted", set())
    yield shared / "spmd_grid", own / "spmd_grid"
    for function in (machine_code.refused, machine_code._first_folder, machine_code._folders):
        function.cache_clear()


KEPT = machine_code.MachineCode("f", ["memcpy"], b"code")


def test_kernels_are_kept_where_nobody_else_may_write(caches, capsys):
    shared, own = caches
    assert machine_code.keep("of a test", KEPT) and machine_code.kept_in("of a test") == shared
    assert not own.exists() and not machine_code.refused() and not capsys.readouterr().err


def test_kernels_are_kept_in_the_users_folder_where_others_may_write(caches, capsys):
    shared, own = caches
    shared.parent.chmod(0o777)
    assert machine_code.kept_in("of a test") is None
    assert machine_code.keep("of a test", KEPT) and machine_code.kept_in("of a test") == own
    assert not shared.exists() and stat.S_IMODE(own.stat().st_mode) == 0o700
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"spmd_grid: compiled kernels in {shared} are not loaded: other users may write to {shared.parent};"
        f" they are kept in {own}"
    )


def test_kernels_are_kept_nowhere_if_the_users_folder_is_no_better(caches, capsys):
    for folder in caches:
        folder.parent.chmod(0o777)
    assert not machine_code.keep("of a test", KEPT) and machine_code.kept_in("of a test") is None
    assert capsys.readouterr().err.endswith("they are compiled anew in every process\n")


def test_a_kernel_of_another_user_is_replaced(caches, capsys):
    shared, _ = caches
    assert machine_code.keep("of a test", KEPT)
    (path,) = shared.iterdir()
    path.chmod(0o666)
    assert machine_code.kept_in("of a test") is None and "other users may write to" in capsys.readouterr().err
    assert machine_code.keep("of a test", KEPT) and machine_code.kept_in("of a test") == shared


TWICE = """
from spmd_grid.kernels.compiled import kernel

@kernel("void(int64[::1])")
def twice(x):
    x[0] *= 2

if __name__ == "__main__":
    print(twice._cache.cache_path)
"""


def test_numbas_files_are_not_loaded_from_where_others_may_write(tmp_path):
    shared, own, program = tmp_path / "shared", tmp_path / "own", tmp_path / "twice.py"
    shared.mkdir()
    own.mkdir(mode=0o700)
    program.write_text(TWICE)
    more = {"NUMBA_CACHE_DIR": str(shared), "XDG_CACHE_HOME": str(own), "PYTHONPATH": str(ROOT)}

    def folder_of_files():
        words = [sys.executable, program]
        done = subprocess.run(words, env=os.environ | more, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip()), done.stderr

    folder, said = folder_of_files()
    assert folder.is_relative_to(shared) and not said
    next(folder.glob("*.nbi")).chmod(0o666)
    folder, said = folder_of_files()
    assert folder.is_relative_to(own) and "other users may write to" in said and len(said.splitlines()) == 1
