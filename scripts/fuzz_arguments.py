"""Fuzzes the public functions with random arguments, right and wrong ones, on simulated ranks or under MPI.

    PYTHONPATH=tests python scripts/fuzz_arguments.py --cases 2000 --seed 0
    PYTHONPATH=tests mpiexec -n 2 python scripts/fuzz_arguments.py --cases 300

All ranks pass the same arguments, and every call must end alike on all of them: all return, or all raise the same
error, which is one of this package, a TypeError, a ValueError or their like.  A call that is refused changes no array
and no file, and a collective of the same grid works afterwards.  On simulated ranks the last tenth of the cases differ
in an argument of one rank; then no call may hang or raise an error of a defect.  Prints how many calls ended in which
way, and the slowest ones.  The first case that breaks the rule is printed with its arguments, and ends the run with
exit code 1.  So does a call that takes longer than two minutes.
"""

import argparse
import faulthandler
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from support.properties.argument_runs import PER_WORLD, Broken, Runner, run_on_simulated_ranks

import spmd_grid as sg

MOST_SECONDS = 120  # kernels may have to be compiled first


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2_000, metavar="N", help="number of calls (2,000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the arguments (0)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first call (0)")
    parser.add_argument("--ranks", type=int, default=3, metavar="N", help="simulated ranks (3)")
    parser.add_argument("--all", action="store_true", help="go on after a case that breaks the rule")
    options = parser.parse_args()
    runner, broken = Runner(options.seed), []
    threading.Thread(target=watch, args=(runner,), daemon=True).start()
    n_processes = int(os.environ.get("PMI_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))

    def failed(text: str) -> None:
        broken.append(text)
        print(text, end="\n\n", flush=True)

    if n_processes > 1:
        failed_here = under_mpi(runner, options.first, options.cases)
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # a wrong path may be a name without a folder
            try:
                go_on = failed if options.all else None
                run_on_simulated_ranks(runner, options.first, options.cases, options.ranks, failed=go_on)
            except Broken as error:
                failed(str(error))
        failed_here = bool(broken)
    if runner.counts:
        total = sum(runner.counts.values())
        print(f"{total} calls: " + ", ".join(f"{n} {name}" for name, n in runner.counts.most_common()))
        for seconds, text in runner.slowest:
            print(f"{seconds:.1f} s: {text}")
    return int(failed_here)


def watch(runner: Runner) -> None:
    """End the process when a call takes too long; says which one, and where each thread is."""
    while time.monotonic() - runner.began < MOST_SECONDS:
        time.sleep(1)
    print(f"no end after {MOST_SECONDS} s: {runner.texts}", flush=True)
    faulthandler.dump_traceback()
    os._exit(1)


def under_mpi(runner: Runner, first: int, count: int) -> bool:
    """Run the cases on the processes of MPI; whether one broke the rule, which is printed."""
    from mpi4py import MPI

    is_first = MPI.COMM_WORLD.rank == 0
    folder = Path(MPI.COMM_WORLD.bcast(tempfile.mkdtemp() if is_first else None))
    os.chdir(folder)
    try:
        for at in range(first, first + count, PER_WORLD):
            inside = folder / str(at)
            inside.mkdir(exist_ok=True)
            runner.run_alike(at, min(PER_WORLD, first + count - at), inside)
    except (Broken, sg.SpmdError) as error:
        print(f"{runner.texts}\n{error}", flush=True)
        MPI.COMM_WORLD.Abort(1)
    MPI.COMM_WORLD.Barrier()
    if is_first:
        shutil.rmtree(folder)
    return False


if __name__ == "__main__":
    sys.exit(main())
