"""The checks that start no processes: versions, shared memory, cores."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from spmd_grid.bench.common.machine import usable_cores
from spmd_grid.cli.doctor.verdict import FAILS, OK, SLOW, Check
from spmd_grid.errors import TransportError
from spmd_grid.formatting import bytes_text
from spmd_grid.transport.segment_sizes import segment_size

__all__ = ["cores", "memory", "quota", "versions"]

_NEEDED = {"numpy": (2, 0), "numba": (0, 60), "mpi4py": (4, 0)}
_PYTHON = (3, 11)
_MIB, _GIB = 1 << 20, 1 << 30
_LITTLE = 64 * _MIB  # of /dev/shm for each rank, for the buffers of MPI libraries
_SMALL_ARENA = _GIB


def versions() -> Iterator[Check]:
    """Check Python and the packages; mpi4py is needed for MPI only."""
    yield _needed("Python", platform.python_version(), _PYTHON, "Use Python 3.11 or newer.")
    for name, least in _NEEDED.items():
        wanted = f"{name}>={'.'.join(map(str, least))}"
        try:
            yield _needed(name, version(name), least, f"Install a newer one: pip install '{wanted}'")
        except PackageNotFoundError:
            yield Check(FAILS, name, "not installed", f"Install it: pip install '{wanted}'")


def _needed(name: str, found: str, least: tuple[int, ...], advice: str) -> Check:
    numbers = tuple(int(part) if part.isdigit() else 0 for part in found.split(".")[: len(least)])
    return Check(OK, name, found) if numbers >= least else Check(FAILS, name, found, advice)


def memory(ranks: int, folder: str = "/dev/shm", overcommit: str = "/proc/sys/vm/overcommit_memory") -> Iterator[Check]:
    """Check the memory that ranks of one node can share."""
    try:
        system = os.statvfs(folder)
        size, free = system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize
        little = free < ranks * _LITTLE
        yield Check(
            SLOW if little else OK, "/dev/shm", f"{bytes_text(size)}, {bytes_text(free)} free",
            f"MPI libraries keep their own buffers there, and are killed by a bus error once it is full: give it"
            f" {bytes_text(ranks * _LITTLE)} (docker run --shm-size=1g), and remove what earlier jobs left there."
            if little else "",
        )  # fmt: skip
    except OSError:
        yield Check(OK, "/dev/shm", "not there; arrays are shared without it")
    refusal = _refusal_to_share(overcommit)
    if refusal is not None:
        yield Check(SLOW, "shared arrays", *refusal)
        return
    try:
        arena = segment_size(ranks)
    except TransportError as error:
        yield Check(FAILS, "shared arrays", str(error), "Correct or unset the environment variable.")
        return
    small = arena < _SMALL_ARENA
    yield Check(
        SLOW if small else OK, "shared arrays", f"up to {bytes_text(arena)} for each of {ranks} ranks"
        + " (SPMD_GRID_ARENA)" * ("SPMD_GRID_ARENA" in os.environ),
        "Arrays beyond that are sent in messages: unset SPMD_GRID_ARENA, or give the job more memory." * small,
    )  # fmt: skip


def _refusal_to_share(overcommit: str) -> tuple[str, str] | None:
    """The reason why processes cannot read one another's arrays in place, as they do it, and advice; None if they can.

    Other processes find the memory by its link in /proc.
    """
    try:
        file = os.memfd_create("spmd_grid-doctor")
        try:
            os.ftruncate(file, 1 << 16)
            os.pwrite(file, b"x", 0)
            link = Path(f"/proc/{os.getpid()}/fd/{file}")
            is_seen = link.is_symlink() and Path(overcommit).exists()
        finally:
            os.close(file)
    except (OSError, AttributeError):
        return (
            "this system makes no anonymous shared files (memfd)",
            "Arrays are then sent in messages; Linux 3.17 or newer can read them in place.",
        )
    if not is_seen:
        return (
            "/proc cannot be read, by which ranks find one another's memory",
            "Arrays are then sent in messages: mount /proc ('mount -t proc proc /proc'; containers do so by default).",
        )
    if Path(overcommit).read_text().strip() == "2":
        return (
            "the system counts memory strictly (vm.overcommit_memory is 2)",
            "Arrays are then sent in messages: ask for 'sysctl vm.overcommit_memory=0' to have them read in place.",
        )
    return None


def cores(ranks: int, usable: int | None = None) -> Iterator[Check]:
    """Check that there are enough processors for the ranks; ``usable``: the number that they may use together."""
    usable = len(usable_cores()) if usable is None else usable
    share = quota()
    value = f"{usable} of {os.cpu_count()} usable"
    if share is not None and share < usable:
        value += f", of which the control group grants {share:g} at a time"
    crowded = min(usable, share or usable) < ranks
    yield Check(
        SLOW if crowded else OK, "cores", f"{value}, for {ranks} ranks",
        "Ranks take turns on cores: results are right, but slow. Start as many ranks as there are"
        " cores, or ask for more cores." * crowded,
    )  # fmt: skip


def quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Number of cores whose time the control groups of this process grant it; None without a limit.  Local."""
    found = []
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            inner = root / path.lstrip("/")
            for group in (inner, *inner.parents):
                if group.is_relative_to(root):
                    found += _limit(group / "cpu.max")
        elif "cpu" in controllers.split(","):
            group = root / "cpu"
            found += _limit(group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")
    return min(found, default=None)


def _limit(*files: Path) -> list[float]:
    """The limit in one file with quota and period, or in two."""
    try:
        granted, period = " ".join(file.read_text() for file in files).split()
        return [int(granted) / int(period)] if int(granted) > 0 else []
    except (OSError, ValueError):  # not there, or "max"
        return []
