"""The command `scripts/cluster` up to the namespaces: reads options, starts process 1, passes signals to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from support.hosts.cluster import Cluster
from support.hosts.options import Options, read_options
from support.hosts.system import LIBC, ClusterError, children, say

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "cluster"
_INSIDE = "inside-namespaces"
_SYSTEM_TOOLS = "/usr/sbin:/sbin"  # some systems do not have them in the PATH of users
_SYS_ADMIN = 1 << 21


def main() -> None:
    if sys.argv[1:2] == [_INSIDE]:
        try:
            sys.exit(Cluster(Options(**json.loads(sys.argv[2]))).run())
        except ClusterError as error:
            say(str(error))
            sys.exit(2)
    sys.exit(_run(read_options(sys.argv[1:])))


def _refusal() -> str:
    """The reason why there can be no hosts here, in a line; empty if there can."""
    missing = [tool for tool in ("unshare", "nsenter", "ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"hosts inside this machine need the commands of util-linux and iproute2; missing: {', '.join(missing)}"
    tried = subprocess.run([*_unshare(), "true"], stderr=subprocess.PIPE, text=True)
    if tried.returncode:
        return (
            f"hosts inside this machine need namespaces, which are not permitted here ({tried.stderr.strip()}): be"
            " root, or in a container with CAP_SYS_ADMIN, or allow user namespaces"
        )
    return ""


def _unshare() -> list[str]:
    """The words that start process 1.  In a user namespace anybody is root, where the system permits it."""
    capable = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    is_admin = capable is not None and int(capable[1], 16) & _SYS_ADMIN
    user = [] if is_admin else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]


def _run(options: Options) -> int:
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_TOOLS}"
    reason = _refusal()
    if reason:
        say(reason)
        return 2
    options.cores = sorted(os.sched_getaffinity(0))
    inside = subprocess.Popen(
        [*_unshare(), sys.executable, str(_SCRIPT), _INSIDE, json.dumps(asdict(options))],
        stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with(os.getpid()),
    )  # fmt: skip

    def forward(number: int, frame: object) -> None:
        for child in children(inside.pid):  # process 1, which passes it to the command
            os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    code = inside.wait()
    if options.action == "check" and code == 0:
        say("hosts inside this machine are permitted")
    return code if code >= 0 else 128 - code


def _die_with(parent: int):
    def prepare() -> None:
        LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died meanwhile
            os._exit(1)

    return prepare
