"""Process numbers of the system, and the PID namespace within which they mean something.

A container has a PID namespace of its own as a rule.  Libraries of MPI name processes of one machine by their numbers
all the same: MPICH copies large messages out of the process that has the sender's number here, and Open MPI takes a
process of its own number for itself.  So a process that its launcher has put into another namespace starts MPI without
these short cuts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, MutableMapping
from contextlib import suppress
from pathlib import Path

__all__ = ["pid_namespace", "process_above", "spare_numbers"]

_FIRST = 0xEFFFFFFC  # the namespace of a machine itself, as Linux has numbered it ever since
_LAUNCHERS = (
    *("hydra_pmi_proxy", "mpiexec.hydra", "pmi_proxy", "mpiexec", "mpirun"),
    *("prted", "prterun", "orted", "orterun", "slurmstepd"),
)
# Settings by which MPICH, and Open MPI from version 5 on, name no process by its number.
_SPARING = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "OMPI_MCA_smsc": "^cma", "OMPI_MCA_btl": "^sm,vader"}


def pid_namespace(link: str = "/proc/self/ns/pid") -> int:
    """The number of this process's PID namespace; 0 if the system does not tell.  Local."""
    with suppress(OSError):
        return int(re.sub(r"\D", "", os.readlink(link)) or 0)
    return 0


def process_above(names: Collection[str]) -> int | None:
    """The nearest process above this one that has one of these names; None if this namespace has none.  Local."""
    process = os.getppid()
    with suppress(OSError):  # a system without /proc
        while process > 0:
            # The name, in parentheses, may contain spaces; after it come the state and the parent's number.
            name, _, rest = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
            if name in names:
                return process
            process = int(rest.split()[1])
    return None


def spare_numbers(environment: MutableMapping[str, str]) -> None:
    """Let MPI name no process by its number if the launcher is not in this namespace; what the user has set stays.

    Local; before MPI starts.  It then sends large messages through shared memory or by TCP, which takes longer.
    """
    if sys.platform == "linux" and pid_namespace() != _FIRST and process_above(_LAUNCHERS) is None:
        for name, value in _SPARING.items():
            environment.setdefault(name, value)
