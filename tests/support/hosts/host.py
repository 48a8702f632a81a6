"""One host: its namespaces, and its first process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from support.hosts.entering import NAMESPACES, words_to_enter
from support.hosts.remote_shell import serve
from support.hosts.system import LIBC, OWN_NAME, STATE, ClusterError, do

__all__ = ["TEMPORARY", "Host", "address_of"]

TEMPORARY = "/run/cluster/tmp"  # TMPDIR; each host has its own
_PR_SET_NAME = 15
_SHM_DEST = 0o1000  # of a segment that goes with the last process that uses it
_BOOT_SECONDS = 100_000  # by which the clocks since boot of two hosts differ


def address_of(number: int) -> str:
    return f"10.99.0.{number + 1}"


class Host:
    """The host ``number``, which may use ``cores``; ``private``: folders of its own.  ``pid``: its first process."""

    def __init__(self, number: int, cores: list[int], private: list[str]):
        self.number, self.name, self.cores = number, f"node{number}", cores
        heard, told = os.pipe()
        maker = os.fork()
        if maker == 0:
            os.close(heard)
            with suppress(OSError):
                os.write(told, str(self._unshared(private)).encode())
            os._exit(0)
        os.close(told)
        answer = os.read(heard, 32)
        os.close(heard)
        os.waitpid(maker, 0)
        if not answer:
            wanted = ", ".join(NAMESPACES)
            raise ClusterError(
                f"hosts inside this machine need namespaces of their own ({wanted}), which are refused here"
            )
        self.pid = int(answer)
        self.namespace = _namespace(self.pid)

    def _unshared(self, private: list[str]) -> int:
        """The first process of new namespaces."""
        if LIBC.unshare(sum(NAMESPACES.values())):
            raise OSError
        seconds = _BOOT_SECONDS * (self.number + 1)
        Path("/proc/self/timens_offsets").write_text(f"monotonic {seconds} 0\nboottime {seconds} 0\n")
        first = os.fork()
        if first == 0:
            try:
                self._live(private)
            finally:
                os._exit(1)
        return first

    def _live(self, private: list[str]) -> None:
        """The first process: prepares the host, starts the remote shell, buries orphans."""
        LIBC.prctl(_PR_SET_NAME, OWN_NAME.encode())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.sched_setaffinity(0, self.cores)
        socket.sethostname(self.name)
        do("mount --make-rprivate /", "mount -t proc proc /proc", "mount -t tmpfs tmpfs /dev/shm")
        for folder in (TEMPORARY, *private):
            do(f"mount -t tmpfs tmpfs {folder}")
        # For /sys/class/net; some containers have it read-only, and none of the rest depends on it.
        subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], stderr=subprocess.DEVNULL)
        # By this, UCX and Open MPI tell whether two processes share a machine.
        boot = STATE / f"{self.name}.boot"
        boot.write_text(f"00000000-0000-0000-0000-{self.number:012x}\n")
        do(f"mount --bind {boot} /proc/sys/kernel/random/boot_id")
        if os.fork() == 0:
            serve(STATE / f"{self.name}.up", TEMPORARY)
        while True:
            with suppress(ChildProcessError):
                os.wait()

    def is_up(self) -> bool:
        return (STATE / f"{self.name}.up").exists()

    def words(self, command: list[str], folder: str | None = None) -> list[str]:
        """The words that run ``command`` on this host, as the child of the process that they start."""
        return words_to_enter(self.pid, self.cores, folder or "/", command)

    def kill(self) -> None:
        """Ends all processes at once; the system closes their connections."""
        os.kill(self.pid, signal.SIGKILL)

    def is_alive(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    # -- programs on it ----------------------------------------------------------------------------------------

    def signal_programs(self, number: int) -> None:
        for pid, _ in self.programs():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def programs(self) -> Iterator[tuple[int, str]]:
        """Its processes but for those that make the host: their numbers and command lines."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _namespace(entry.name) == self.namespace:
                with suppress(OSError):
                    is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                    if not is_dead and (entry / "comm").read_text().strip() != OWN_NAME:
                        words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                        yield int(entry.name), words.decode(errors="replace").strip()

    def leftovers(self) -> list[str]:
        """The things that programs have left on the host: a line for each process, file and segment of memory."""
        left = [f"process {pid}: {words[:160]}" for pid, words in self.programs()]
        root = Path(f"/proc/{self.pid}/root")
        for folder in ("/dev/shm", TEMPORARY):
            found = [path for path in (root / folder[1:]).rglob("*") if not path.is_dir()]
            left += [f"file {folder}/{path.name}, {path.lstat().st_size} bytes" for path in sorted(found)]
        shm = subprocess.run(self.words(["cat", "/proc/sysvipc/shm"]), capture_output=True, text=True).stdout
        for _, number, mode, size, *_ in (line.split() for line in shm.splitlines()[1:]):
            if not int(mode, 8) & _SHM_DEST:
                left.append(f"System V memory {number}, {size} bytes")
        return left


def _namespace(pid: int | str) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None
