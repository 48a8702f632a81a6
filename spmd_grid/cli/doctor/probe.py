"""The program that the doctor starts: ``python -m spmd_grid.cli.doctor.probe library | simulated | ranks | network``.

Prints its findings.  ``ranks`` is collective over all processes: each prints their number, the first the findings.
``network``, too: it exchanges a message, of which the library is asked to say how, and prints nothing itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from spmd_grid.bench.common.mpi import library as library_name
from spmd_grid.bench.common.mpi import mpi, world
from spmd_grid.cli.doctor.survey import exchange_over_network, survey_hosts, survey_links
from spmd_grid.cli.doctor.trials import MARK
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.paths import forced_path
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.send_recv import recv, send
from spmd_grid.transport.launch import run_spmd

__all__ = ["main"]

_MIB = 1 << 20
_ROUNDS, _LARGE_ROUNDS = 200, 10
_IN_A_ROW = 20
_KERNEL = "protocol.course.run_course"  # one that takes long to compile


def main() -> None:
    if sys.argv[1] == "network":
        exchange_over_network(world())
    else:
        report({"library": library, "simulated": simulated, "ranks": ranks}[sys.argv[1]]())


def report(found: dict[str, Any]) -> None:
    # In one write: the lines of several processes must not be mixed.
    sys.stdout.write(f"{MARK}{json.dumps(found)}\n")
    sys.stdout.flush()


def library() -> dict[str, Any]:
    """The MPI library, which is loaded but not initialised."""
    MPI = mpi(initialize=False)
    return {"library": library_name(), "standard": MPI.Get_version(), "abi": _abi(MPI)}


def _abi(MPI: ModuleType) -> str:
    """The binary interface that mpi4py uses: that of the standard, or of a family of libraries."""
    standard = getattr(MPI, "Get_abi_version", lambda: (-1, -1))()
    if standard[0] > 0:
        return f"of the MPI standard, {'.'.join(map(str, standard))}"
    version = MPI.Get_library_version()
    families = {"MPICH": "MPICH", "MVAPICH": "MPICH", "Intel(R) MPI": "MPICH", "Open MPI": "Open MPI"}
    return next((family for name, family in families.items() if name in version), "of the library alone")


def simulated() -> dict[str, Any]:
    """Check simulated ranks; find the time until kernels are ready, and the folder that keeps them."""
    from spmd_grid.kernels import loading, machine_code

    began = perf_counter()
    loading.function_at(_KERNEL)
    seconds = perf_counter() - began

    def body() -> int:
        return all_reduce(1, init_grid((2,)), [0], "sum").item()

    if run_spmd(body, ranks=2) != [2, 2]:
        raise RuntimeError("two simulated ranks compute a wrong sum")
    folder = machine_code.kept_in(_KERNEL)
    return {"warm_up": seconds, "cache": str(folder) if folder else None, "refused": machine_code.refused()}


def ranks() -> dict[str, Any]:
    """The measurements of all processes of the job."""
    comm = world()
    report({"size": comm.size})
    if comm.size == 1:
        sys.exit(0)
    grid = init_grid((-1,))
    group = grid.group((0,))
    hosts = survey_hosts(grid, comm)
    peer = _farthest([host["ranks"] for host in hosts], comm.bcast(group.near))
    latency, large = _ping(grid, peer, 8, _ROUNDS), _ping(grid, peer, _MIB, _LARGE_ROUNDS)
    reduce = _least(_all_reduces(grid), _ROUNDS // _IN_A_ROW) / _IN_A_ROW
    rates = {}
    for path in ("direct", "message"):
        with forced_path(path):
            rates[path] = 8 * _MIB / _least(_broadcast(grid), _LARGE_ROUNDS) / 1e9
    meeting = meeting_of(group)
    model = getattr(meeting, "model", None)
    fetches = isinstance(meeting, MemoryMeeting) and meeting.fetches()  # has made what distances are tried with
    word = meeting.ask_distance() if isinstance(meeting, MemoryMeeting) else None
    found = {
        "size": comm.size,
        "thread_level": _thread_level(mpi()),
        "nodes": len(hosts), "hosts": hosts, "links": survey_links(grid) if len(hosts) > 1 else None,
        "peer": peer, "shares_memory": group.shares_memory,
        "latency": 1e6 * latency, "bandwidth": _MIB / large / 1e9, "all_reduce": 1e6 * reduce,
        "in_place": rates["direct"], "by_messages": rates["message"],
        "fetches": fetches, "late": bool(meeting.is_late), "word": None if word is None else 1e9 * word,
        "model": str(model) if model else None,
        "far": bool(meeting.is_far) if group.times_well and group.shares_memory else None,
    }  # fmt: skip
    if comm.rank:
        sys.exit(0)
    return found


def _thread_level(MPI: ModuleType) -> str:
    names = "SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"
    return next(name for name in names if MPI.Query_thread() == getattr(MPI, f"THREAD_{name}"))


def _farthest(hosts: Sequence[Sequence[int]], near: Collection[int]) -> int:
    """A rank on another host than the first, given the ranks of each; else one whose memory the first does not see, or
    rank 1."""
    others = [rank for rank in hosts[0][1:] if rank not in near]
    return next(iter([*(ranks[0] for ranks in hosts[1:]), *others, 1]))


def _ping(grid: ProcessGrid, peer: int, n_bytes: int, rounds: int) -> float:
    """Seconds of a message from the first rank to ``peer``: half of a round trip."""
    x = np.zeros(n_bytes, np.uint8)
    if grid.rank not in (0, peer):
        return 0.0

    def round_trip() -> None:
        for sender, receiver in ((0, peer), (peer, 0)):
            if grid.rank == sender:
                send(x, grid, [0], [receiver])
            else:
                recv(grid, [0], [sender], out=x)

    return _least(round_trip, rounds) / 2


def _all_reduces(grid: ProcessGrid) -> Callable[[], object]:
    """Several in a row: the last rank to begin a single one would find it done by the others."""
    one = np.ones(1)

    def in_a_row() -> None:
        for _ in range(_IN_A_ROW):
            all_reduce(one, grid, [0], "sum")

    return in_a_row


def _broadcast(grid: ProcessGrid) -> Callable[[], object]:
    """From an array that others may read in place, into an existing array."""
    x, out = (grid.allocate((_MIB,), np.float64) for _ in range(2))
    x[:] = out[:] = 1  # touched for the first time
    return lambda: broadcast(x, grid, [0], [0], out=out)


def _least(call: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest call: other work on the machine only makes calls slower."""
    taken = []
    for _ in range(rounds):
        began = perf_counter()
        call()
        taken.append(perf_counter() - began)
    return min(taken)


if __name__ == "__main__":
    main()
