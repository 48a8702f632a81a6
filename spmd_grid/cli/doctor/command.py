"""``python -m spmd_grid doctor``: whether programs will run here, what will be slow, and what to do about it.

Nothing is measured in this process, which loads neither MPI nor numba: whatever may hang, crash or be killed runs in
processes with a time limit (`trials`), which say what they have found (`probe`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from textwrap import fill

from spmd_grid.bench.common.launch import inside_a_job
from spmd_grid.cli.doctor import local, trials
from spmd_grid.cli.doctor.verdict import FAILS, OK, SLOW, Check
from spmd_grid.cli.option_types import MOST_PROCESSES, seconds, whole

__all__ = ["add_parser"]

_WIDTH = 110
# Beyond these it is slow: microseconds of a ping and of an all_reduce, and GB/s, on one node and between nodes.
_HERE, _BETWEEN, _WARM_UP_SECONDS = (20.0, 60.0, 1.0), (200.0, 800.0, 0.1), 1.5


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="say whether programs will run here, what is slow, and what to do about it",
        description="Looks at Python, MPI, its launcher, shared memory and cores, starts two ranks and times them."
        " Exit code 0: programs will run under MPI, though perhaps slowly. 1: they will not. Start it without mpiexec.",
    )
    parser.add_argument(
        "-n", "--ranks", type=whole(2, MOST_PROCESSES), default=2, metavar="N", help="number of ranks to start (2)"
    )
    parser.add_argument("--limit", type=seconds, default=60.0, metavar="SECONDS", help="for each thing tried (60)")
    parser.add_argument("--json", action="store_true", help="write JSON, for machines")
    parser.set_defaults(command=run)


@dataclass
class Findings:
    """All checks, and what follows from them."""

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
            return f"Programs will not run under MPI yet; see what fails, above. Meanwhile {simulated} works."
        return "Programs will not run; see what fails, above."


def run(options) -> int:
    if inside_a_job():
        print("spmd_grid doctor: start it without mpiexec; it starts ranks itself", file=sys.stderr)
        return 2
    found = examine(options.ranks, options.limit, (lambda check: None) if options.json else _print_check)
    if options.json:
        said = {"checks": [asdict(check) for check in found.checks], "conclusion": found.conclusion()}
        print(json.dumps({**said, "mpi": found.mpi_runs, "simulated": found.simulated_runs}, indent=1))
    else:
        print(f"\n{found.conclusion()}")
    return found.code


def examine(ranks: int, limit: float, say=lambda check: None) -> Findings:
    """Tries everything; ``say`` hears of each check at once.  Local; takes no longer than ``limit`` per attempt."""
    checks: list[Check] = []

    def note(found: Iterator[Check]) -> None:
        for check in found:
            checks.append(check)
            say(check)

    note(local.versions())
    simulated = trials.probe("simulated", limit)
    note(_of_simulated(simulated))
    library = trials.probe("library", limit)
    note(_of_library(library))
    note(local.memory(ranks))
    note(local.cores(ranks))
    attempt = None
    if library.said:
        attempt = trials.start_ranks(ranks, limit)
        note(_of_launch(attempt, ranks, library.said))
        if attempt.works:
            note(_of_ranks(attempt.said))
    command = f"{attempt.launcher} -n {ranks} {sys.executable} app.py" if attempt else ""
    return Findings(checks, attempt is not None and attempt.works, bool(simulated.said), command)


def _print_check(check: Check) -> None:
    print(f"{check.verdict:5s}  {check.name:22s}  {check.value}", flush=True)
    if check.advice:
        print(fill(check.advice, _WIDTH, initial_indent=f"{'':31s}-> ", subsequent_indent=" " * 34), flush=True)


# -- what the attempts mean --------------------------------------------------------------------------------------


def _of_simulated(probe) -> Iterator[Check]:
    if not probe.said:
        yield Check(
            FAILS, "simulated ranks", probe.problem,
            "Even without MPI nothing runs: install the package with what it needs, 'pip install spmd-grid'.",
        )  # fmt: skip
        return
    yield Check(OK, "simulated ranks", "two ranks have met")
    seconds, folder = probe.said["warm_up"], probe.said["cache"]
    if folder is None:
        yield Check(
            SLOW, "compiled kernels", f"ready after {seconds:.1f} s, in every process anew",
            "They cannot be kept, since no cache folder can be written to: set NUMBA_CACHE_DIR to one that can be.",
        )  # fmt: skip
    else:
        slow = seconds > _WARM_UP_SECONDS
        yield Check(
            SLOW if slow else OK, "compiled kernels", f"ready after {seconds:.1f} s, kept in {folder}",
            "They have just been compiled, or the disk they are kept on is slow: run the doctor again. If it stays"
            " slow, set NUMBA_CACHE_DIR to a folder on a local disk." * slow,
        )  # fmt: skip


def _of_library(probe) -> Iterator[Check]:
    said = probe.said
    if not said:
        yield Check(
            FAILS, "MPI library", probe.problem,
            "Install one with 'pip install \"spmd-grid[mpich]\"', or load your cluster's ('module load ...') and build"
            " mpi4py with it.",
        )  # fmt: skip
        return
    yield Check(OK, "MPI library", said["library"])
    old = said["standard"] < [4, 0]
    yield Check(
        OK, "MPI standard", f"{'.'.join(map(str, said['standard']))}, ABI: {said['abi']}"
        + ", without persistent collectives, so operations between nodes take a little longer" * old,
    )  # fmt: skip


def _of_launch(attempt, ranks: int, library: dict) -> Iterator[Check]:
    if attempt.launcher is None:
        yield Check(
            FAILS, "launcher", "there is no mpiexec in PATH or beside Python",
            "Install an MPI with its launcher, 'pip install \"spmd-grid[mpich]\"', or add the folder of your MPI's"
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
        beside = "" if attempt.in_path else "It is not in PATH: type all of it, or activate the environment of Python."
        yield Check(OK, "launcher", f"{attempt.launcher} starts {ranks} ranks that see each other", beside)
    if attempt.broken:
        yield Check(
            FAILS, "first operations", attempt.broken,
            "The ranks have met, so the launcher is the right one. Start a program of yours with SPMD_GRID_TIMEOUT=10,"
            f" which says who waits for what. If messages are lost, {library['library']} does not work on this network:"
            " choose another of its transports, or another library.",
        )  # fmt: skip


def _of_ranks(said: dict) -> Iterator[Check]:
    """What the ranks have measured."""
    full = said["thread_level"] == "MULTIPLE"
    yield Check(
        OK if full else SLOW, "MPI threads", said["thread_level"],
        "" if full else "Without MULTIPLE nobody watches for ranks that end early, so others may wait for them for"
        " ever: use an MPI library that was built with thread support.",
    )  # fmt: skip
    if said["nodes"] > 1:
        yield Check(OK, "nodes", f"{said['nodes']}: messages between them")
    elif said["shares_memory"]:
        in_place, messages = said["in_place"], said["by_messages"]
        slow = in_place < messages
        yield Check(
            SLOW if slow else OK, "single copy",
            f"arrays of other ranks are read in place: {in_place:.1f} GB/s, by messages {messages:.1f} GB/s",
            "Reading in place loses here: try SPMD_GRID_PATH=message on your program." * slow,
        )  # fmt: skip
    else:
        yield Check(
            SLOW, "single copy", "ranks of this node do not see each other's memory; all goes in messages",
            "Unset SPMD_GRID_ARENA if it is 0, and let ranks share a process namespace: in containers, start mpiexec"
            " inside one rather than a container per rank.",
        )  # fmt: skip
    model = f" (model: {said['model']})" if said["model"] else ""
    slow_from, where, busy = (
        _HERE,
        "",
        ("Other programs, or ranks beyond the cores, take turns with these: time programs on a quiet machine."),
    )
    if said["nodes"] > 1:
        slow_from, where, busy = (
            _BETWEEN,
            f", ranks 0 and {said['peer']} on different nodes",
            ("The network is slow, or others use it too: look whether the MPI library takes the fastest one there is."),
        )
    ping, reduce, rate = slow_from
    figures = [
        ("ping of 8 bytes", f"{said['latency']:.1f} us{where}", said["latency"] > ping),
        ("ping of 1 MiB", f"{said['bandwidth']:.1f} GB/s{where}", said["bandwidth"] < rate),
        ("all_reduce of 8 bytes", f"{said['all_reduce']:.1f} us each, of 20 in a row", said["all_reduce"] > reduce),
    ]
    for name, value, slow in figures:
        timed = model if name == "ping of 1 MiB" else ""
        yield Check(SLOW if slow else OK, name, f"{value}, the best of several{timed}", busy * slow)
    if said["far"] is not None:
        far = said["far"]
        yield Check(
            SLOW if far else OK, "processors", "far apart" if far else "close to each other",
            "The ranks' processors share no cache: bind neighbouring ranks to neighbouring cores (mpiexec -bind-to core"
            " with MPICH, --bind-to core with Open MPI)." * far,
        )  # fmt: skip
