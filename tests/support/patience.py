"""Limits of time on a machine that may have other work to do.

A limit is given in seconds of a quiet machine.  What misses it is judged again by what the machine can do now: a fixed
piece of work is timed, that starts a process and hands lines to and fro, and the limit grows by the factor by which it
takes longer.  Whoever meets the limit pays for no measurement.
"""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable

__all__ = ["at_growing_scales", "communicate", "in_time", "run_in_time", "slowdown", "until"]

# The work, and what it takes on a quiet machine: two cores of 2023, of which one suffices.
_WORK = "import sys\nfor line in sys.stdin:\n    print(sum(range(20_000)), flush=True)"
_TURNS, _QUIET_SECONDS = 25, 0.035

# What takes longer hangs, whatever the machine has to do.  Less than `scripts/test` lets a test take.
_HANGS_SECONDS = 480.0
_BUSY = 1.5


def slowdown() -> float:
    """The factor by which the machine is slower now, or was within the last minute, than a quiet one; 1 or more."""
    began = time.perf_counter()
    command = [sys.executable, "-S", "-E", "-c", _WORK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as worker:
        for _ in range(_TURNS):
            worker.stdin.write("\n")
            worker.stdout.readline()
    measured = (time.perf_counter() - began) / _QUIET_SECONDS
    per_core = os.getloadavg()[0] / os.cpu_count()  # over a minute: what is gone by now may have been in the way
    return max(1.0, measured, per_core if per_core > _BUSY else 1.0)


def in_time(seconds: float, limit: float) -> bool:
    """Whether ``seconds`` are below ``limit``, or below what the limit is on the machine as it is now."""
    return seconds < limit or seconds < limit * slowdown()


def until(condition: Callable[[], bool], limit: float) -> bool:
    """Waits until ``condition()`` holds, no longer than ``limit`` on a quiet machine; whether it does."""
    began = time.monotonic()
    while not condition():
        if not in_time(time.monotonic() - began, limit):
            return condition()
        time.sleep(0.02)
    return True


def communicate(process: subprocess.Popen, text=None, *, limit: float):
    """The output of a process until it ends; one that hangs is killed, and TimeoutExpired raised."""
    try:
        return process.communicate(text, timeout=limit)
    except subprocess.TimeoutExpired as missed:
        try:
            more = min(limit * slowdown(), _HANGS_SECONDS) - limit
            return process.communicate(timeout=max(more, 0.1))
        except subprocess.TimeoutExpired as hangs:
            process.kill()
            process.wait()
            raise hangs from missed


def run_in_time(command, *, limit: float, input=None, check=False, **options) -> subprocess.CompletedProcess:
    """As ``subprocess.run``, with a limit in seconds of a quiet machine; the output is captured as text by default."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with subprocess.Popen(command, **options) as process:
        out, err = communicate(process, input, limit=limit)
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def at_growing_scales(*scales: float):
    """The mark of tests of lengths of time, all of which their argument ``scale`` multiplies: where the machine is too
    busy for the first scale, the next ones are tried.

    What other work adds does not grow with the scale, while a fault of the program's does and is found at each.  On a
    quiet machine the first scale decides.
    """

    def decorate(test):
        @functools.wraps(test)
        def attempts(*args, **options):
            for scale in scales[:-1]:
                try:
                    return test(*args, scale=scale, **options)
                except Exception as failure:
                    if slowdown() < _BUSY:
                        raise
                    print(f"at scale {scale}, on a busy machine: {failure!r}")
            return test(*args, scale=scales[-1], **options)

        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name != "scale"]
        attempts.__signature__ = signature.replace(parameters=others)
        return attempts

    return decorate
