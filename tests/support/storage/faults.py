"""System calls that fail, do half of their work, or end the process, at a call that the test chooses."""

import errno
import os
import signal
import threading

from spmd_grid.storage.system import System

CALLS = [name for name in vars(System) if not name.startswith("_")]
ERRORS = [errno.ENOSPC, errno.EACCES, errno.EIO]


class Killed(BaseException):
    """The end of a simulated rank; not an Exception, as nothing may handle it."""


class Faulty(System):
    """The system's calls, counted in ``made``; at call number ``at``, from 0, ``act(name)`` comes first.

    Threads of one process count together.
    """

    def __init__(self, at=None, act=None):
        self.at, self.act, self.made, self._lock = at, act, [], threading.Lock()

    def before(self, name):
        with self._lock:
            number = len(self.made)
            self.made.append(name)
        if number == self.at:
            self.act(name)


def _counted(name):
    real = getattr(System, name)

    def call(self, *args):
        self.before(name)
        return real(self, *args)

    return call


for _name in CALLS:
    setattr(Faulty, _name, _counted(_name))


class Short(System):
    """Writes and reads at most 7 bytes at a time."""

    def pwrite(self, descriptor, data, offset):
        return super().pwrite(descriptor, data[:7], offset)

    def pread(self, descriptor, buffer, offset):
        return super().pread(descriptor, buffer[:7], offset)


class NoRename(System):
    """A file system that does not rename folders."""

    def rename(self, source, target):
        if source.is_dir():
            raise OSError(errno.EXDEV, "folders cannot be renamed here")
        super().rename(source, target)


class Stuck(System):
    """A disk that takes nothing more from threads that save beside the program."""

    def pwrite(self, descriptor, data, offset):
        if threading.current_thread().name == "spmd_grid saving":
            threading.Event().wait()
        return super().pwrite(descriptor, data, offset)


class Dead(Faulty):
    """Ends a simulated rank at call number ``at``: this and every later call raise `Killed`, as of a process killed.

    Ranks that share ``fate`` die together: at their next call after the first of them.
    """

    def __init__(self, at, fate):
        super().__init__()
        self.at, self.fate = at, fate

    def before(self, name):
        number = len(self.made)
        self.made.append(name)
        if number == self.at or self.fate:
            self.fate.append(name)
            raise Killed(f"at call {number}, {name}")


class DeadWithoutRename(Dead):
    """The same on a file system that does not rename folders."""

    def rename(self, source, target):
        self.before("rename")
        NoRename().rename(source, target)


def fail(code):
    """An act: the call fails with this error."""

    def act(name):
        raise OSError(code, os.strerror(code))

    return act


def kill_process(name):
    """An act: the process is killed, as by the system."""
    os.kill(os.getpid(), signal.SIGKILL)
