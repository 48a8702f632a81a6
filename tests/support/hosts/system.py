"""Calls of the system that several files here share."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

__all__ = ["HOST_NAMESPACES", "LIBC", "OWN_NAME", "STATE", "ClusterError", "children", "do", "say"]

STATE = Path("/run/cluster")  # files of the hosts; on a tmpfs that only their namespaces see
LIBC = ctypes.CDLL(None, use_errno=True)
OWN_NAME = "cluster-host"  # of the processes that make a host; those of programs have other names

# The namespaces of a host by nsenter's names, with the flags of unshare(2).
HOST_NAMESPACES = {
    "mount": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000, "net": 0x40000000, "time": 0x80,
}  # fmt: skip


class ClusterError(Exception):
    """The hosts could not be made, or the launcher not be started."""


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def do(*commands: str) -> None:
    """Runs commands that must succeed."""
    for command in commands:
        done = subprocess.run(command.split(), capture_output=True, text=True)
        if done.returncode:
            raise ClusterError(f"{command}: {(done.stderr or done.stdout).strip()}")


def children(pid: int) -> list[int]:
    """The children of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
