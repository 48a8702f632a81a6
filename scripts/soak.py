"""Run random programs for a long time: every result is compared with an oracle, and memory must not grow.

    mpiexec -n 4 python scripts/soak.py --minutes 20
    python scripts/soak.py --ranks 4 --minutes 20          # on simulated ranks, without MPI

The programs are those of tests/support/programs/generator.py: operations, messages, halos, stencils and reshardings
in any order, on grids of at most the given number of ranks, on all paths in turn.  Prints a line per minute.  Exits
with 1 after the first failure, which is shown with its program and the options that repeat it, or if memory has grown
in the second half of the time: in the first half kernels are compiled and caches fill up.

    mpiexec -n 3 python scripts/soak.py --interrupts --programs 2000
    python scripts/soak.py --simulated 4 --interrupts --programs 100000

With ``--interrupts``, one or two ranks of every program are interrupted at a random moment, by a trace function or,
under MPI, also by a timer's signal; they catch the exception and go on.  tests/support/programs/interrupted.py says
what must hold all the same.  Every program then has its own communicator.

Set SPMD_GRID_RANKS_PER_NODE=2 to simulate several nodes and test the mixed path, and SPMD_GRID_TIMEOUT=60 to have
hangs reported.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from support.programs.generator import make_program
from support.programs.interrupted import Outcome, draw_interruptions, faults_of, play_interrupted
from support.programs.runner import play
from support.programs.steps import PATHS, Program
from support.properties.draws import RandomDraw

import spmd_grid as sg
from spmd_grid.testing.ranks import run_on_mpi, world_size
from spmd_grid.transport.launch import as_communicator, use_world

MIB = 1 << 20
LIMIT_SECONDS = 120  # after which an interrupted program counts as hanging
LONGEST_SECONDS = 0.02  # until a timer's signal arrives
COLUMNS = "  minutes   programs  operations  MiB of results  failures  own MiB  shared MiB"


def play_named(program: Program, name: str) -> None:
    """Play the program; print its name at once if it fails, since the other ranks may never learn of it."""
    try:
        play(program)
    except BaseException:
        print(f"soak: {name} failed here", file=sys.stderr, flush=True)
        raise


class MpiRanks:
    """All processes of the job."""

    def __init__(self) -> None:
        self.size, self.grid = world_size(), sg.init_grid((-1,))
        self.speaks = self.grid.rank == 0

    def run(self, program: Program, name: str) -> None:
        run_on_mpi(program.n_ranks, play_named, program, name)

    def run_interrupted(self, program: Program, seed: tuple[int, int]) -> list[Outcome]:
        """Play the program on a separate communicator; returns the outcomes of all ranks on all processes."""
        from mpi4py import MPI

        interruptions = draw_interruptions(seed, program, LONGEST_SECONDS)
        takes_part = MPI.COMM_WORLD.rank < program.n_ranks
        comm = MPI.COMM_WORLD.Split(0 if takes_part else MPI.UNDEFINED)
        outcome = None
        faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
        if takes_part:
            with use_world(as_communicator(comm)):
                outcome = play_interrupted(program, interruptions)
        outcomes = MPI.COMM_WORLD.allgather(outcome)
        if takes_part:
            comm.Free()
        faulthandler.cancel_dump_traceback_later()
        return outcomes[: program.n_ranks]

    def most(self, *figures: float) -> list[float]:
        """The largest of each figure over all processes."""
        return sg.all_reduce(np.array(figures), self.grid, [0], "max").tolist()


class SimulatedRanks:
    """Simulated ranks: threads of this process."""

    speaks = True

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, program: Program, name: str) -> None:
        sg.run_spmd(play_named, program, name, ranks=program.n_ranks)

    def run_interrupted(self, program: Program, seed: tuple[int, int]) -> list[Outcome]:
        """Play the program; every other one under a seed, one rank at a time.  Returns the outcomes of all ranks."""
        interruptions, order = draw_interruptions(seed, program), seed[1] if seed[1] % 2 else None
        # No ``timeout``: its watch reads frames of other threads, which in Python 3.11 interferes with tracing.
        faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
        outcomes = sg.run_spmd(play_interrupted, program, interruptions, ranks=program.n_ranks, seed=order)
        faulthandler.cancel_dump_traceback_later()
        return outcomes

    def most(self, *figures: float) -> list[float]:
        return list(figures)


def resident_mib() -> tuple[float, float]:
    """MiB of this process's own memory, and of the shared memory, the arena, that it has touched."""
    found = {"RssAnon": 0.0, "RssShmem": 0.0}
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) / 1024
    except OSError:  # not Linux: memory is not watched
        pass
    return found["RssAnon"], found["RssShmem"]


class Soak:
    """A run of random programs, with its counts."""

    def __init__(self, ranks: MpiRanks | SimulatedRanks, options: argparse.Namespace) -> None:
        self.ranks, self.options = ranks, options
        self.n_programs = self.n_steps = self.n_bytes = self.n_failures = 0
        self.began = time.perf_counter()
        self.memory_at_half: list[float] | None = None
        self.ends: Counter[str] = Counter()  # of interrupted programs

    def say(self, *parts: object) -> None:
        if self.ranks.speaks:
            print(*parts, flush=True)

    def run(self) -> bool:
        """Play programs until the time is up; returns whether all went well, the same on all processes."""
        options, limit = self.options, 60 * self.options.minutes
        paths = options.paths or PATHS
        self.say(f"seed {options.seed}, {self.ranks.size} ranks, paths {', '.join(paths)}\n{COLUMNS}")
        reported = elapsed = 0.0
        number = options.first
        while elapsed < limit and number - options.first < (options.programs or sys.maxsize):
            if not self._play(number, paths):
                self.n_failures += 1
                if not options.keep_going:
                    return False
            number += 1
            elapsed, *memory = self.ranks.most(time.perf_counter() - self.began, *resident_mib())
            if self.memory_at_half is None and elapsed >= limit / 2:
                self.memory_at_half = memory
            if elapsed >= reported + 60:
                reported = elapsed
                self._report(elapsed, memory)
        _, *memory = self.ranks.most(0.0, *resident_mib())
        self._report(elapsed, memory)
        return self._is_steady(memory) and not self.n_failures

    def _play(self, number: int, paths: list[str]) -> bool:
        options = self.options
        draw = RandomDraw(options.seed, number)
        program = make_program(draw, self.ranks.size, options.steps, [paths[number % len(paths)]])
        name = f"program {number} of seed {options.seed}"
        try:
            with sg.forced_path(program.path):
                if options.interrupts:
                    self._judge(self.ranks.run_interrupted(program, (options.seed, number)))
                else:
                    self.ranks.run(program, name)
        except Exception:
            again = f"--seed {options.seed} --first {number} --programs 1 --steps {options.steps}"
            again += f"{' --interrupts' * options.interrupts}"
            chosen = f" --paths {' '.join(options.paths)}" if options.paths else ""
            self.say(f"FAILED: {name}, after {self.n_programs} others; again with {again}{chosen}\n{program}\n")
            self.say(traceback.format_exc())
            return False
        self.n_programs += 1
        self.n_steps += len(program.steps)
        self.n_bytes += program.n_bytes
        return True

    def _judge(self, outcomes: list[Outcome]) -> None:
        """Count the outcomes of an interrupted program; raises AssertionError if they break a promise."""
        faults = faults_of(outcomes, self.options.ranks is None)
        if faults:
            where = [outcome.place for outcome in outcomes]
            raise AssertionError("\n".join([f"interrupted at {where}", *faults]))
        self.ends["interrupted"] += any(outcome.place for outcome in outcomes)
        self.ends["cut off"] += any(outcome.texts for outcome in outcomes)
        self.ends["reported by one error"] += any(outcome.errors for outcome in outcomes)
        self.ends["with operations called again"] += any(outcome.again for outcome in outcomes)
        self.ends["with results replaced"] += any(outcome.made_up for outcome in outcomes)

    def _report(self, elapsed: float, memory: list[float]) -> None:
        own, shared = memory
        self.say(
            f"{elapsed / 60:9.1f}  {self.n_programs:9d}  {self.n_steps:10d}  {self.n_bytes / MIB:14.1f}"
            f"  {self.n_failures:8d}  {own:7.1f}  {shared:10.1f}"
        )
        if self.ends:
            self.say("          programs " + ", ".join(f"{how}: {count}" for how, count in self.ends.items()))

    def _is_steady(self, memory: list[float]) -> bool:
        grown = [now - then for now, then in zip(memory, self.memory_at_half or memory, strict=True)]
        self.say(f"memory since half time: own {grown[0]:+.1f} MiB, shared {grown[1]:+.1f} MiB")
        if max(grown) <= self.options.growth:
            return True
        self.say(f"GROWTH of more than {self.options.growth} MiB")
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="length of the run (20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the programs (0)")
    parser.add_argument("--ranks", "--simulated", type=int, help="simulated ranks (the processes of mpiexec)")
    parser.add_argument("--steps", type=int, help="steps of a program, at most (24; with --interrupts 6)")
    parser.add_argument("--paths", nargs="+", choices=PATHS, help="only these paths")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="number of the first program (0)")
    parser.add_argument("--programs", type=int, metavar="N", help="number of programs (default: until the time is up)")
    parser.add_argument("--growth", type=float, default=64.0, metavar="MIB", help="allowed growth of memory (64)")
    parser.add_argument("--keep-going", action="store_true", help="continue after failures")
    parser.add_argument("--interrupts", action="store_true", help="raise exceptions at random moments")
    options = parser.parse_args()
    if options.steps is None:
        options.steps = 6 if options.interrupts else 24
    ranks = MpiRanks() if options.ranks is None else SimulatedRanks(options.ranks)
    soak = Soak(ranks, options)
    passed = soak.run()
    soak.say("all results are right, memory is steady" if passed else "FAILED")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
