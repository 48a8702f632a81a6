"""The end of Open MPI's launcher, where it would wait for ever for a host that does not answer.

When a rank aborts the job, this launcher (``prterun``, ``mpirun`` before version 5) tells all hosts to end their ranks,
and waits until they have.  A host that has stopped, or whose cable was pulled, never says so.  The launcher gives up
when it is asked to end again within five seconds, as by a second Ctrl-C; then the hosts that are left end their ranks,
since they lose the launcher.  MPICH's launcher needs none of this.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

__all__ = ["end_launcher_later"]

# Seconds that the launcher has to end by itself, and between signals, of which it has needed three.
_PATIENCE, _BETWEEN, _TIMES = 5.0, 1.0, 5
_NAMES = ("prterun", "orterun", "mpirun", "mpiexec")


def end_launcher_later() -> None:
    """Ends Open MPI's launcher in some seconds, if it is on this host and has not ended by then.  Local.

    A process of its own does so, which the launcher does not end with the ranks.
    """
    from spmd_grid.transport.process_numbers import process_above  # not in the process of its own, which has no package

    launcher = process_above(_NAMES) if "OMPI_COMM_WORLD_RANK" in os.environ else None
    if launcher is None:
        return
    with suppress(AttributeError, OSError):  # a system without process descriptors, or the launcher has ended
        descriptor = os.pidfd_open(launcher)
        subprocess.Popen(
            [sys.executable, "-S", "-E", __file__, str(descriptor)],
            pass_fds=[descriptor],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def _end(descriptor: int) -> None:
    """Asks the process to end until it does, a few times, if it has not ended by itself."""
    ended = select.poll()
    ended.register(descriptor, select.POLLIN)
    seconds = _PATIENCE
    for _ in range(_TIMES):
        if ended.poll(seconds * 1000):
            break
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        seconds = _BETWEEN


if __name__ == "__main__":
    _end(int(sys.argv[1]))
