"""A remote shell in place of ssh: a server on each host, and the program that a launcher calls in place of ssh.

As with ssh, the command gets a bare environment, and what it reads and writes travels through the network.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["main", "serve", "write_profile"]

_PORT = 22
_CONNECT_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_HEAD = struct.Struct("!BI")  # 1 or 2: a number of bytes of that stream follow; 0: the exit code
_PROFILE = Path("/run/cluster/profile.json")  # the environment of a login
_OPTIONS_WITH_VALUE = {"-l", "-p", "-o", "-i", "-F"}


def serve(ready: Path, folder: str) -> None:
    """Runs commands that arrive, for ever.  ``ready`` is made when the server listens."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.create_server(("", _PORT), backlog=64)
    ready.touch()
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                _serve_one(connection, folder)
            finally:
                os._exit(0)
        connection.close()


def write_profile(environment: dict[str, str]) -> None:
    """Sets the environment in which commands run on all hosts."""
    _PROFILE.write_text(json.dumps(environment))


def _serve_one(connection: socket.socket, folder: str) -> None:
    stream = connection.makefile("rb")
    command = json.loads(stream.readline())
    job = subprocess.Popen(
        ["/bin/sh", "-c", command], env=json.loads(_PROFILE.read_text()), cwd=folder, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    writing = threading.Lock()

    # A launcher that ends the job may close the connection before all is said: OSError.
    def pass_on(number: int, source: int) -> None:
        with suppress(OSError):
            while data := os.read(source, 1 << 16):
                with writing:
                    connection.sendall(_HEAD.pack(number, len(data)) + data)

    def pass_input() -> None:
        with suppress(OSError):
            while data := stream.read1(1 << 16):
                os.write(job.stdin.fileno(), data)
        job.stdin.close()

    threading.Thread(target=pass_input, daemon=True).start()
    pumps = [
        threading.Thread(target=pass_on, args=(number, source.fileno()))
        for number, source in ((1, job.stdout), (2, job.stderr))
    ]
    for pump in pumps:
        pump.start()
    for pump in pumps:
        pump.join()
    status = job.wait()
    with suppress(OSError):
        connection.sendall(_HEAD.pack(0, status & 0xFF))


def main() -> int:
    """``[options] HOST COMMAND...``, as ssh."""
    # Real ssh stays when its launcher ends while the host cannot be reached, and may be told not to.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    words = sys.argv[1:]
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _OPTIONS_WITH_VALUE else 1]
    host, *command = words
    try:
        connection = socket.create_connection((host.rpartition("@")[2], _PORT), _CONNECT_SECONDS)
        connection.settimeout(None)
        connection.sendall(json.dumps(" ".join(command)).encode() + b"\n")
        threading.Thread(target=_send_input, args=(connection,), daemon=True).start()
        return _receive_output(connection.makefile("rb"))
    except OSError as error:
        print(f"remote shell on {host}: {error}", file=sys.stderr)
        return 255


def _send_input(connection: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(0, 1 << 16):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def _receive_output(stream) -> int:
    while head := stream.read(_HEAD.size):
        number, size = _HEAD.unpack(head)
        if number == 0:
            return size
        data = stream.read(size)
        while data:
            data = data[os.write(number, data) :]
    return 255


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the thread that reads the input may wait for ever
