"""Runs a command on a host: ``entering.py PID CORES FOLDER COMMAND...``, PID being the host's first process.

In place of nsenter, which stops itself when its child is stopped, and is not woken when somebody lets the child go on.
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["NAMESPACES", "words_to_enter"]

# The namespaces of a host, as /proc names them, with the flags of unshare(2).  Folders are last: they hold /proc.
NAMESPACES = {
    "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000, "net": 0x40000000, "time": 0x80, "mnt": 0x00020000,
}  # fmt: skip


def words_to_enter(pid: int, cores: list[int], folder: str, command: list[str]) -> list[str]:
    """The words that run ``command`` on the host whose first process is ``pid``."""
    return [sys.executable, "-S", "-E", __file__, str(pid), ",".join(map(str, cores)), folder, *command]


def _main() -> int:
    """The exit code of the command; 127 if there is no such program."""
    pid, cores, folder, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    for name in NAMESPACES:
        namespace = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), f"the {name} namespace of process {pid} cannot be entered")
        os.close(namespace)
    child = os.fork()  # the first process that is in all of them
    if child == 0:
        try:
            os.chdir(folder)
            os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
            os.execvp(command[0], command)
        except OSError as error:
            print(f"cluster: {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
            os._exit(127)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_main())
