"""``python -m spmd_grid doctor``: whether programs will run here, what will be slow, and what to do about it.

This process measures nothing and loads neither MPI nor numba: whatever may hang, crash or be killed runs in other
processes with a time limit (`trials`), which report their findings (`probe`).
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from textwrap import fill
from typing import Any

from spmd_grid.bench.common.launch import inside_a_job
from spmd_grid.cli.doctor import local, trials
from spmd_grid.cli.doctor.hosts import of_hosts
from spmd_grid.cli.doctor.verdict import FAILS, OK, SLOW, Check
from spmd_grid.cli.option_types import MOST_PROCESSES, seconds, whole
from spmd_grid.formatting import printable

__all__ = ["add_parser"]

_WIDTH = 110
# Limits between ok and slow: microseconds of a ping and of an all_reduce, and GB/s; on one node and between nodes.
_HERE, _BETWEEN, _WARM_UP_SECONDS = (20.0, 60.0, 1.0), (200.0, 800.0, 0.1), 1.5


def add_parser(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check whether programs will run here, what is slow, and what to do about it",
        description="Checks Python, MPI, its launcher, shared memory and cores; starts two ranks and times them."
        " Exit code 0: programs will run under MPI, though perhaps slowly. 1: they will not. Start it without mpiexec.",
    )
    parser.add_argument(
        "-n", "--ranks", type=whole(2, MOST_PROCESSES), default=2, metavar="N", help="number of ranks to start (2)"
    )
    parser.add_argument(
        "--launcher", metavar="WORDS", help="the command that starts ranks, if not mpiexec, such as 'srun --mpi=pmix'"
    )
    parser.add_argument("--limit", type=seconds, default=60.0, metavar="SECONDS", help="limit of each attempt (60)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=run)


@dataclass
class Findings:
    """All checks, and the conclusions from them."""

    checks: list[Check]
    mpi_runs: bool
    simulated_runs: bool
    command: str  # how to start a program

    @property
    def code(self) -> int:
        return 0 if self.mpi_runs else 1

    def conclusion(self) -> str:
        simulated = "'python -m spmd_grid run -n 4 app.py' (simulated ranks, without MPI)"
        if self.mpi_runs:
            return f"Programs will run under MPI: {self.command}"
        if self.simulated_runs:
            return f"Programs will not run under MPI yet; see the failures above. Meanwhile {simulated} works."
        return "Programs will not run; see the failures above."


def run(options: Namespace) -> int:
    if inside_a_job():
        print("spmd_grid doctor: start it without mpiexec; it starts ranks itself", file=sys.stderr)
        return 2
    found = examine(options.ranks, options.limit, _ignore if options.json else _print_check, options.launcher)
    if options.json:
        report = {"checks": [asdict(check) for check in found.checks], "conclusion": found.conclusion()}
        print(json.dumps({**report, "mpi": found.mpi_runs, "simulated": found.simulated_runs}, indent=1))
    else:
        print(f"\n{found.conclusion()}")
    return found.code


def _ignore(check: Check) -> None:
    pass


def examine(
    ranks: int, limit: float, report: Callable[[Check], None] = _ignore, launcher: str | None = None
) -> Findings:
    """Make all checks, each of which is passed to ``report`` at once.  Local.  ``limit``: seconds per attempt."""
    checks: list[Check] = []

    def note(found: Iterator[Check]) -> None:
        for check in found:
            checks.append(check)
            report(check)

    note(local.versions())
    simulated = trials.probe("simulated", limit)
    note(_of_simulated(simulated))
    library = trials.probe("library", limit)
    note(_of_library(library))
    attempt = trials.start_ranks(ranks, limit, launcher) if library.found else None
    if attempt is None or attempt.found.get("nodes", 1) == 1:  # else each host has its own
        note(local.memory(ranks))
        note(local.cores(ranks))
    if attempt is not None:
        note(_of_launch(attempt, ranks, library.found))
        if attempt.works:
            note(_of_ranks(attempt.found, partial(trials.transport, attempt.launcher or "", ranks, limit)))
    command = f"{attempt.launcher} -n {ranks} {sys.executable} app.py" if attempt else ""
    return Findings(checks, attempt is not None and attempt.works, bool(simulated.found), command)


def _print_check(check: Check) -> None:
    print(f"{check.verdict:5s}  {check.name:22s}  {printable(check.value)}", flush=True)
    if check.advice:
        print(
            fill(printable(check.advice), _WIDTH, initial_indent=f"{'':31s}-> ", subsequent_indent=" " * 34), flush=True
        )


# -- checks of the attempts --------------------------------------------------------------------------------------


def _of_simulated(probe: trials.Probe) -> Iterator[Check]:
    if not probe.found:
        yield Check(
            FAILS, "simulated ranks", probe.problem,
            "Even without MPI nothing runs: install the package with its requirements, 'pip install spmd-grid'.",
        )  # fmt: skip
        return
    yield Check(OK, "simulated ranks", "two ranks exchange data")
    seconds, folder = probe.found["warm_up"], probe.found["cache"]
    if probe.found["refused"]:
        yield Check(
            SLOW, "cache folder", f"kernels in it are not loaded: {probe.found['refused']}",
            "Set NUMBA_CACHE_DIR to a folder of yours to which no other user may write, or change this one's mode.",
        )  # fmt: skip
    if folder is None:
        yield Check(
            SLOW, "compiled kernels", f"ready after {seconds:.1f} s, compiled anew in every process",
            "They cannot be kept, since no cache folder is writable: set NUMBA_CACHE_DIR to one that is.",
        )  # fmt: skip
    else:
        slow = seconds > _WARM_UP_SECONDS
        yield Check(
            SLOW if slow else OK, "compiled kernels", f"ready after {seconds:.1f} s, kept in {folder}",
            "They have just been compiled, or the disk they are kept on is slow: run the doctor again. If it stays"
            " slow, set NUMBA_CACHE_DIR to a folder on a local disk." * slow,
        )  # fmt: skip


def _of_library(probe: trials.Probe) -> Iterator[Check]:
    found = probe.found
    if not found:
        yield Check(
            FAILS, "MPI library", probe.problem,
            "Install one with 'pip install mpich', or load your cluster's ('module load ...') and build"
            " mpi4py with it.",
        )  # fmt: skip
        return
    yield Check(OK, "MPI library", found["library"])
    old = found["standard"] < [4, 0]
    yield Check(
        OK, "MPI standard", f"{'.'.join(map(str, found['standard']))}, ABI: {found['abi']}"
        + ", without persistent collectives, so operations between nodes take a little longer" * old,
    )  # fmt: skip


def _of_launch(attempt: trials.Launch, ranks: int, library: dict[str, Any]) -> Iterator[Check]:
    if attempt.launcher is None:
        yield Check(
            FAILS, "launcher", "there is no mpiexec in PATH or beside Python",
            "Install an MPI with its launcher, 'pip install mpich', or add the folder of your MPI's"
            " mpiexec to PATH.",
        )  # fmt: skip
        return
    for launcher, problem in attempt.failed:
        advice = (
            f"Start programs with {attempt.launcher}, which belongs to the library, or put its folder first in PATH."
        )
        if not (attempt.works or attempt.broken):
            advice = f"It must be the mpiexec that came with {library['library']}, and able to start processes here."
        yield Check(FAILS, "launcher", f"{launcher}: {problem}", advice)
    if attempt.works or attempt.broken:
        advice = "It is not in PATH: type its full path, or activate the environment of Python."
        yield Check(
            OK,
            "launcher",
            f"{attempt.launcher} starts {ranks} ranks that see each other",
            advice * (not attempt.in_path),
        )
    if "PID namespaces" in attempt.broken:
        yield Check(
            FAILS, "PID namespaces", attempt.broken.partition("init_grid: ")[2],
            "If programs set another value, such as MPIR_CVAR_CH4_CMA_ENABLE=1, unset it: spmd_grid sets the right one"
            " where it starts MPI itself.",
        )  # fmt: skip
    elif attempt.broken:
        yield Check(
            FAILS, "first operations", attempt.broken,
            "The ranks see each other, so the launcher is the right one. If this was the first run, or the machine is"
            " busy, compiling may have taken too long: run the doctor again. Otherwise start a program of yours with"
            f" SPMD_GRID_TIMEOUT=10, which reports the ranks that wait and their operations. If messages are lost,"
            f" {library['library']} does not work on this network: choose another of its transports,"
            " or another library.",
        )  # fmt: skip


def _of_ranks(found: dict[str, Any], transport: Callable[[], str] = str) -> Iterator[Check]:
    """The checks of the ranks' measurements; ``transport``: finds that of messages between hosts."""
    full = found["thread_level"] == "MULTIPLE"
    yield Check(
        OK if full else SLOW, "MPI threads", found["thread_level"],
        "" if full else "Without MULTIPLE, ranks that end early are not noticed, so others may wait for them for ever:"
        " use an MPI library that was built with thread support.",
    )  # fmt: skip
    namespaces = max(host["namespaces"] for host in found["hosts"])
    if namespaces > 1:
        yield Check(OK, "PID namespaces", f"{namespaces} on one host; large messages of MPI arrive whole between them")
    if found["nodes"] > 1:
        yield from of_hosts(found, transport())
    elif found["shares_memory"]:
        in_place, messages = found["in_place"], found["by_messages"]
        slow = in_place < messages
        yield Check(
            SLOW if slow else OK, "single copy",
            f"arrays of other ranks are read in place: {in_place:.1f} GB/s, by messages {messages:.1f} GB/s",
            "Reading in place is slower here: try SPMD_GRID_PATH=message on your program." * slow,
        )  # fmt: skip
        may = "the system may copy large ones from rank to rank"
        may_not = "large ones pass through shared memory: the system lets no rank read another's"
        yield Check(OK, "plain arrays", may if found["fetches"] else may_not)
    else:
        yield Check(
            SLOW, "single copy", "ranks of this node do not see each other's memory; all data is sent in messages",
            "Unset SPMD_GRID_ARENA if it is 0, and let ranks share a process namespace: in containers, start mpiexec"
            " inside one rather than a container per rank.",
        )  # fmt: skip
    yield from _of_speed(found)
    if found["far"] is not None:
        far = found["far"]
        yield Check(
            SLOW if far else OK, "processors",
            "share no cache" if far else f"share a cache, in which a word takes {found['word']:.0f} ns" if found["late"]
            else "share a cache",
            "Bind neighbouring ranks to neighbouring cores (mpiexec -bind-to core with MPICH,"
            " --bind-to core with Open MPI)." * far,
        )  # fmt: skip


def _of_speed(found: dict[str, Any]) -> Iterator[Check]:
    """The checks of the times of messages and of an operation, on one node or between two."""
    model = f" (measured to choose paths: {found['model']})" if found["model"] else ""
    if found["nodes"] > 1:
        ping, reduce, rate = _BETWEEN
        where = f", ranks 0 and {found['peer']} on different nodes"
        busy = "The network is slow, or others use it too: check that the MPI library uses the fastest one available."
    else:
        (ping, reduce, rate), where = _HERE, ""
        busy = "Other programs, or ranks beyond the cores, take turns with these: time programs on a quiet machine."
    figures = [
        ("ping of 8 bytes", f"{found['latency']:.1f} us{where}", found["latency"] > ping),
        ("ping of 1 MiB", f"{found['bandwidth']:.1f} GB/s{where}", found["bandwidth"] < rate),
        ("all_reduce of 8 bytes", f"{found['all_reduce']:.1f} us each, of 20 in a row", found["all_reduce"] > reduce),
    ]
    for name, value, slow in figures:
        timed = model if name == "ping of 1 MiB" else ""
        yield Check(SLOW if slow else OK, name, f"{value}, the best of several{timed}", busy * slow)
