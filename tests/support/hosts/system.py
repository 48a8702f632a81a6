"""Calls of the system that several files here share."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

__all__ = ["LIBC", "OWN_NAME", "STATE", "ClusterError", "children", "do", "say"]

STATE = Path("/run/cluster")  # files of the hosts; on a tmpfs that only their namespaces see
LIBC = ctypes.CDLL(None, use_errno=True)
OWN_NAME = "cluster-host"  # of the processes that make a host; those of programs have other names


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
