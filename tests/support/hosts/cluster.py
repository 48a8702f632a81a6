"""Process 1: makes the hosts, runs the command on the first, and does to the hosts what was asked for."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TextIO

from support.hosts.events import Event, due_events
from support.hosts.host import TEMPORARY, Host
from support.hosts.launchers import prepare_launcher
from support.hosts.network import make_network
from support.hosts.options import Options
from support.hosts.system import STATE, ClusterError, children, do, say

__all__ = ["Cluster"]

_UP_SECONDS, _SETTLE_SECONDS, _KEPT_CHARACTERS = 60.0, 0.1, 1 << 20
_LOOK_SECONDS, _SLOW_LOOK_SECONDS = 0.005, 0.05  # the first while something is to be done in time


class Cluster:
    """Hosts, and a command that runs on them."""

    def __init__(self, options: Options):
        self._options = options
        self._command: subprocess.Popen | None = None
        self._output, self._printing = "", threading.Lock()
        do("mount -t tmpfs tmpfs /run")
        STATE.mkdir()
        os.mkdir(TEMPORARY)
        (STATE / "hosts").touch()
        do(f"mount --bind {STATE}/hosts /etc/hosts", "ip link set lo up")
        self._hosts = [Host(node, self._cores_of(node), options.private) for node in options.nodes]
        self._network = make_network(self._hosts, options.latency, options.rate)
        deadline = time.monotonic() + _UP_SECONDS
        while not all(host.is_up() for host in self._hosts):
            if time.monotonic() > deadline or not all(host.is_alive() for host in self._hosts):
                raise ClusterError("a host does not come up")
            time.sleep(_LOOK_SECONDS)

    def _cores_of(self, node: int) -> list[int]:
        cores, nodes = self._options.cores, len(self._options.nodes)
        if not self._options.shares_cores:
            return cores
        share = cores[node * len(cores) // nodes : (node + 1) * len(cores) // nodes]
        return share or [cores[node % len(cores)]]

    def run(self) -> int:
        """The exit code of the command."""
        options = self._options
        mpiexec, environment = prepare_launcher(options, self._hosts)
        command = options.command
        if options.action == "run":
            if mpiexec is None:
                raise ClusterError("there is no mpiexec in PATH")
            command = [mpiexec, "-n", str(sum(options.ranks)), *command]
        for node, line in options.setup:
            self._on(node, line, check=True)
        began = self._began = time.monotonic()
        self._command = subprocess.Popen(
            self._hosts[0].words(command, os.getcwd()), env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, frame: self._signal_command(number))
        printers = [
            threading.Thread(target=self._print, args=pair, daemon=True)
            for pair in ((self._command.stdout, sys.stdout), (self._command.stderr, sys.stderr))
        ]
        for printer in printers:
            printer.start()
        code = self._watch([Event(*words) for words in options.events])
        seconds = time.monotonic() - began
        for printer in printers:
            printer.join(1.0)
        if options.shows_leftovers:
            self._list_leftovers(code, seconds)
        return code

    # -- while it runs -----------------------------------------------------------------------------------------

    def _print(self, source: IO[bytes], sink: TextIO) -> None:
        """Print what the command writes; once nobody reads it, the system tells the command so, as of a pipe."""
        try:
            self._pass_on(source.fileno(), sink)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sink.fileno())  # for what the sink has kept
            source.close()

    def _pass_on(self, source: int, sink: TextIO) -> None:
        decoder, is_new_line = codecs.getincrementaldecoder("utf-8")("replace"), True
        while data := os.read(source, 1 << 16):
            text = decoder.decode(data)
            with self._printing:
                self._output = (self._output + text)[-_KEPT_CHARACTERS:]
                for line in text.splitlines(keepends=True):
                    if self._options.shows_times and is_new_line:
                        sink.write(f"[{time.monotonic() - self._began:8.3f}] ")
                    sink.write(line)
                    is_new_line = line.endswith("\n")
                sink.flush()
        if not is_new_line:  # a line of ours may follow
            sink.write("\n")
            sink.flush()

    def _watch(self, events: list[Event]) -> int:
        while True:
            self._bury_orphans()
            code = self._command.poll()
            if code is not None:
                return code if code >= 0 else 128 - code
            now = time.monotonic() - self._began
            if now > self._options.limit:
                say(f"the command has not ended after {self._options.limit:g} s")
                return 124
            for event in due_events(events, now, self._output):
                say(f"{now:.3f} s: {event.action}")
                self._act(event.action)
            time.sleep(_LOOK_SECONDS if events else _SLOW_LOOK_SECONDS)

    def _act(self, action: str) -> None:
        verb, what, *rest = [*action.split(maxsplit=2), ""]
        actions: dict[str, Callable[[Host], object]] = {
            "link-down": lambda host: self._network.set_link(host, False),
            "link-up": lambda host: self._network.set_link(host, True),
            "kill-node": Host.kill,
            "power-off": lambda host: (self._network.set_link(host, False), host.kill()),
            "freeze": lambda host: host.signal_programs(signal.SIGSTOP),
            "thaw": lambda host: host.signal_programs(signal.SIGCONT),
            "on": lambda host: self._on(host.number, rest[0]),
        }
        if verb == "signal":
            self._signal_command(getattr(signal, f"SIG{what.removeprefix('SIG')}"))
        else:
            actions[verb](self._hosts[int(what)])

    def _on(self, node: int, line: str, check: bool = False) -> None:
        done = subprocess.run(self._hosts[node].words(["sh", "-c", line], os.getcwd()), stdin=subprocess.DEVNULL)
        if check and done.returncode:
            raise ClusterError(f"{line!r} on node{node} ended with exit code {done.returncode}")

    def _signal_command(self, number: int) -> None:
        for child in children(self._command.pid):  # of the process that has entered the host, which passes nothing on
            with suppress(ProcessLookupError):
                os.kill(child, number)

    def _bury_orphans(self) -> None:
        """Process 1 inherits orphans."""
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if self._command is not None and found.si_pid == self._command.pid:
                return
            os.waitpid(found.si_pid, 0)

    # -- the end -----------------------------------------------------------------------------------------------

    def _list_leftovers(self, code: int, seconds: float) -> None:
        say(f"ended with exit code {code} after {seconds:.2f} s")
        deadline = time.monotonic() + self._options.settle
        while True:
            left = {host: host.leftovers() if host.is_alive() else [] for host in self._hosts}
            if not any(left.values()) or time.monotonic() > deadline:
                break
            self._bury_orphans()
            time.sleep(_SETTLE_SECONDS)
        for host, lines in left.items():
            for line in lines or ["nothing is left" if host.is_alive() else "it is dead"]:
                say(f"{host.name}: {line}")
