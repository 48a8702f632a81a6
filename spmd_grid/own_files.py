"""Files that no user but this one and root can have written: kept machine code, and what was timed.

Machine code is run without further ado, so whoever can write the file, or put another one in its stead, runs code as
this user.  A file counts as own if this user or root owns it and no other user may write to it; the same holds for
its folder and all folders above, but others may write to these if they are sticky, as /tmp is.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock

from spmd_grid.launched import given_rank

__all__ = ["Stranger", "folder_of_user", "make_folder", "note", "problem_of", "read_own", "strange_file", "write_own"]

_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_lock = Lock()
_noted: set[Path] = set()


class Stranger(OSError):
    """A file or folder that others may have written."""


def problem_of(folder: Path) -> str:
    """The reason why others could put files into a folder, or into one above it; empty if none can.

    Local.  ``folder``: without symbolic links (`os.path.realpath`).  Looks from the root down, so that no other
    user can exchange a folder once it has been looked at.  Of one that is missing those above it count.
    """
    for each in (*reversed(folder.parents), folder):
        try:
            problem = _problem(each, os.lstat(each), stat.S_ISDIR, may_be_sticky=each != folder)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{each}: {error.strerror}"
        if problem:
            return problem
    return ""


def read_own(folder: Path, name: str, most: int) -> bytes:
    """The content of a file of at most ``most`` bytes in a folder that has no `problem_of`.  Local.

    Raises OSError where there is none, or a larger one, `Stranger` where others may have written it.
    """
    with _opened(folder) as descriptor:
        # Checked after it has been opened: what is read is what was checked.  A pipe must not keep it waiting.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
        with open(file, "rb") as opened:
            status = os.fstat(file)
            _check(folder / name, status, stat.S_ISREG)
            if status.st_size > most:
                raise OSError(errno.EFBIG, f"it has {status.st_size} bytes; at most {most} are read")
            return opened.read(status.st_size)  # as much as was checked, though it may grow


def strange_file(folder: Path, part: str) -> str:
    """The reason why others may have written a file in a folder that has no `problem_of`; empty if none can have.

    Local.  ``part``: a part of the names of the files that count.
    """
    with _opened(folder) as descriptor:
        names = [name for name in os.listdir(descriptor) if part in name]
        found = [(name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)) for name in names]
    return next(filter(None, (_problem(folder / name, status, stat.S_ISREG) for name, status in found)), "")


def write_own(folder: Path, name: str, content: bytes) -> None:
    """Write a file that all may read and this user alone may write, whole or not at all.  Local.  Raises OSError."""
    part = f"{name}.{os.urandom(6).hex()}.part"
    with _opened(folder) as descriptor:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(part, flags, 0o600, dir_fd=descriptor)
        try:
            with open(file, "wb") as opened:
                opened.write(content)
                os.fchmod(file, 0o644)
            os.replace(part, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=descriptor)
            raise


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder, and those above it that are missing, all with this mode.  Local.  Raises OSError."""
    for each in (*reversed(folder.parents), folder):
        with suppress(FileExistsError):
            if not each.exists():
                each.mkdir(mode)


def folder_of_user() -> Path | None:
    """This user's folder for what can be made anew; None if there is no home, or others may write there.  Local."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.path.realpath(home), "spmd_grid")
    return folder if os.path.isabs(home) and not problem_of(folder) else None


def note(folder: Path, text: str) -> None:
    """Print a line about a folder, once, on the first rank of a job.  Local."""
    with _lock:
        is_known = folder in _noted
        _noted.add(folder)
    if not is_known and given_rank(os.environ) in (None, "0"):
        print(f"spmd_grid: {text}", file=sys.stderr, flush=True)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, _READ_FOLDER)
    try:
        _check(folder, os.fstat(descriptor), stat.S_ISDIR)
        yield descriptor
    finally:
        os.close(descriptor)


def _check(path: Path, status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    problem = _problem(path, status, is_kind)
    if problem:
        raise Stranger(problem)


def _problem(path: Path, status: os.stat_result, is_kind: Callable[[int], bool], may_be_sticky: bool = False) -> str:
    """The reason why others may have written a file or folder, or put something else there; empty if none can have."""
    if not is_kind(status.st_mode):
        return f"{path} is a link, or something else that is not followed"
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user ({status.st_uid})"
    others = status.st_mode & stat.S_IWOTH or (
        status.st_mode & stat.S_IWGRP and not (_is_mine_alone(status.st_gid) and not _lists_users(path))
    )
    if others and not (may_be_sticky and status.st_mode & stat.S_ISVTX):
        return f"other users may write to {path}"
    return ""


def _lists_users(path: Path) -> bool:
    """Whether a file may have a list of other users: what they may do shows in the rights of its group."""
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        return error.errno != errno.ENOTSUP


@cache
def _is_mine_alone(group: int) -> bool:
    """Whether a group has no other member than this user and root: many systems give each user such a group."""
    import grp
    import pwd

    with suppress(KeyError, OSError):
        mine = {"root", pwd.getpwuid(os.geteuid()).pw_name}
        return mine.issuperset(grp.getgrgid(group).gr_mem) and mine.issuperset(
            user.pw_name for user in pwd.getpwall() if user.pw_gid == group
        )
    return False
