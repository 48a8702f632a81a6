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
from collections.abc import Collection, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from spmd_grid.formatting import spans
from spmd_grid.launched import given_rank

__all__ = [
    "FAILED",
    "RIGHT",
    "WRONG",
    "Surroundings",
    "advice",
    "because",
    "have_strangers",
    "pid_namespace",
    "process_above",
    "refusal",
    "spare_numbers",
    "strangers",
]

_FIRST = 0xEFFFFFFC  # the namespace of a machine itself, as Linux has numbered it ever since
_LAUNCHERS = (
    *("hydra_pmi_proxy", "mpiexec.hydra", "pmi_proxy", "mpiexec", "mpirun"),
    *("prted", "prterun", "orted", "orterun", "slurmstepd"),
)
# Settings by which MPICH, and Open MPI from version 5 on, name no process by its number.
_SPARING = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "OMPI_MCA_smsc": "^cma", "OMPI_MCA_btl": "^sm,vader"}
# The settings by which libraries leave the system's copies out, by what their versions begin with.
_MENDS = {
    "Open MPI": "OMPI_MCA_smsc=^cma (before version 5: OMPI_MCA_btl_vader_single_copy_mechanism=none)",
    "MVAPICH": "MV2_SMP_USE_CMA=0",
    "MPICH": "MPIR_CVAR_CH4_CMA_ENABLE=0",
}

RIGHT, WRONG, FAILED = range(3)  # what came of a message, the worst last


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


def spare_numbers(environment: MutableMapping[str, str]) -> list[str]:
    """Let MPI name no process by its number if the launcher is not in this namespace; what the user has set stays.

    Local; before MPI starts.  Returns the names of the settings that were made.  MPI then sends large messages through
    shared memory or by TCP, which takes longer.
    """
    is_in_job = sys.platform == "linux" and given_rank(environment) is not None
    if not is_in_job or pid_namespace() == _FIRST or process_above(_LAUNCHERS) is not None:
        return []
    missing = {name: value for name, value in _SPARING.items() if name not in environment}
    environment.update(missing)
    return list(missing)


# -- processes in different namespaces ---------------------------------------------------------------------------


class Surroundings(NamedTuple):
    """The machine of a process, its PID namespace, and the first process of what MPI calls its node."""

    machine: int
    namespace: int
    node: int


def have_strangers(processes: Sequence[Surroundings]) -> bool:
    """Whether any process has `strangers`.  Local."""
    machines = {(each.machine, each.namespace) for each in processes}
    nodes = {(each.node, each.namespace) for each in processes}
    return any(len({where for where, _ in found}) < len(found) for found in (machines, nodes))


def strangers(processes: Sequence[Surroundings], rank: int) -> list[int]:
    """The processes of this one's machine or node whose process numbers it may not use.  Symmetric.

    >>> strangers([Surroundings(1, 7, 0), Surroundings(1, 8, 0), Surroundings(1, 7, 0), Surroundings(2, 9, 3)], 0)
    [1]
    """
    own = processes[rank]
    return [
        other
        for other, each in enumerate(processes)
        if each.namespace != own.namespace and (each.machine == own.machine or each.node == own.node)
    ]


def refusal(processes: Sequence[Surroundings], found: Sequence[Sequence[int]], library: str) -> str:
    """The reason to refuse a job, given what was worst on each process; empty if all bytes came well.  Local."""
    bad = [rank for rank, (outcome, _) in enumerate(found) if outcome != RIGHT]
    if not bad:
        return ""
    rank, (outcome, other) = bad[0], found[bad[0]]
    fact = f"rank {rank} got other bytes than rank {other} sent"
    if outcome == FAILED:
        fact = f"one between ranks {other} and {rank} failed"
    count = len({processes[each].namespace for each in (rank, *strangers(processes, rank))})
    return (
        f"init_grid: large messages of MPI do not reach rank{'s' * (len(bad) > 1)} {spans(bad)} whole: {fact}."
        f" {because(count)}. {advice(library)}"
    )


def because(count: int) -> str:
    """The reason why messages of MPI may fail on a machine with this number of namespaces, if it is known.  Local."""
    several = "several PID namespaces" if count < 2 else f"{count} PID namespaces"
    return f"One machine has ranks in {several} (containers), in each of which a process number means another process"


def advice(library: str) -> str:
    """The ways out of it with an MPI library, given by its version.  Local."""
    setting = next((text for name, text in _MENDS.items() if name in library), "what switches CMA off in your library")
    return f"Set {setting}, or over UCX UCX_TLS=^cma, for all processes, or start one container per host"
