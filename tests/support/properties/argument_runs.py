"""Runs of random calls on all ranks, and the rule that they keep: all return, or all raise the same kind of error."""

import re
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import spmd_grid as sg
from spmd_grid import errors
from support.properties.argument_calls import Case, draw_case, entries
from support.properties.argument_world import World

PER_WORLD = 40
MOST_SECONDS = 20.0  # of processor time of one process in one call
_FRAME = 600
_PACKAGE = str(Path(sg.__file__).parent)
_KINDS = errors.SpmdError, TypeError, ValueError, IndexError, OverflowError, MemoryError, FloatingPointError
# Errors of a defect, and those of processes that do different things.
_DEFECTS = errors.HangError, errors.PlanError
_BETWEEN = errors.CutOffError, errors.RankEndedError, errors.DeadlockError, errors.MismatchError
_NAMES = re.compile(r"rank \d+( \([\d, ]*\))?|0x[0-9a-f]+|local shape \([\d, ]*\) at \([\d, ]*\)")


class Broken(AssertionError):
    """A call that breaks the rule."""


class Runner:
    """Random calls of one seed; ``counts``: how many ended in which way."""

    def __init__(self, seed: int):
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.texts: dict[int, str] = {}  # by rank, of the call under way or the last one
        self.traces: dict[int, str] = {}
        self.entries = entries()

    def case_of(self, number: int, w: World, differs: bool = False) -> Case:
        """The call ``number``; alike on all processes, unless one argument of one process ``differs``."""
        r = Random(f"{self.seed} {number}")
        odd = Random(f"{self.seed} {number} odd") if differs and w.grid.rank == 1 else None
        return draw_case(r.choice(self.entries), r, w, odd)

    def run_alike(self, first: int, count: int, folder: Path) -> int:
        """Run calls with the same arguments on all processes.  Collective.  Returns how many were run."""
        with np.errstate(all="ignore"):
            w = World(folder, first)
            for number in range(first, first + count):
                self._run_one(number, w)
            w.close()
        return count

    def _run_one(self, number: int, w: World) -> None:
        rank = w.grid.rank
        before, files = w.cells(), _files(w)
        case = self.case_of(number, w)
        self.texts[rank] = f"case {number} of seed {self.seed}: {case.text}"
        began = time.thread_time()
        found = _outcome(case, (*_DEFECTS, *_BETWEEN), self.traces, rank)
        if time.thread_time() - began > MOST_SECONDS:
            found = f"!it took {time.thread_time() - began:.0f} s of processor time"
        frame = np.zeros(_FRAME, np.uint8)
        told = found.encode("utf-8", "replace")[:_FRAME]
        frame[: len(told)] = np.frombuffer(told, np.uint8)
        try:
            frames = sg.all_gather(frame.reshape(1, -1), w.grid, [0], 0)
        except errors.SpmdError as error:
            raise Broken(
                f"{self.texts[rank]}\n  rank {rank}: {found}\n  then {type(error).__name__}: {error}"
            ) from error
        ends = [bytes(each).rstrip(b"\0").decode("utf-8", "replace") for each in frames]
        bad = next((each for each in ends if each.startswith("!")), None)
        if bad or len(set(ends)) > 1:
            said = "\n".join(f"  rank {i}: {each}" for i, each in enumerate(ends))
            raise Broken(f"{self.texts[rank]}\n{said}\n{self.traces.get(rank, '')}")
        if ends[0] != "returned" and w.cells() != before:
            raise Broken(f"{self.texts[rank]}\n  all refused ({ends[0]}), and an array has changed")
        if ends[0] != "returned" and rank == 0 and _files(w) != files:
            raise Broken(f"{self.texts[rank]}\n  all refused ({ends[0]}), and files differ: {_files(w) ^ files}")
        sg.all_reduce(1, w.grid)  # so that no process writes files while another looks at them
        if rank == 0:
            self.counts[ends[0].partition(":")[0]] += 1

    def run_differing(self, number: int, folder: Path) -> None:
        """Run one call with another argument on one process.  Collective."""
        with np.errstate(all="ignore"):
            w = World(folder, number)
            rank = w.grid.rank
            case = self.case_of(number, w, differs=True)
            self.texts[rank] = f"case {number} of seed {self.seed}, which differs on rank 1: {case.text}"
            found = _outcome(case, _DEFECTS, self.traces, rank)
            if found.startswith("!"):
                raise Broken(f"{self.texts[rank]}\n  rank {rank}: {found}\n{self.traces.get(rank, '')}")
            if rank == 0:
                self.counts[f"differing: {found.partition(':')[0]}"] += 1


def _outcome(case: Case, never: tuple[type[Exception], ...], traces: dict[int, str], rank: int) -> str:
    """ "returned", or the error's kind and text without the names of ranks; "!" before one that breaks the rule."""
    try:
        case.run()
    except Exception as error:
        text = _NAMES.sub("rank", f"{type(error).__name__}: {error}")
        traces[rank] = "".join(traceback.format_tb(error.__traceback__)[-8:])
        frames = traceback.extract_tb(error.__traceback__)
        is_numpys = not any(frame.filename.startswith(_PACKAGE) for frame in frames)  # which has not seen our arrays
        return text if is_numpys or (isinstance(error, _KINDS) and not isinstance(error, never)) else f"!{text}"
    return "returned"


def _files(w: World) -> set[str]:
    return {str(path.relative_to(w.folder)) for path in w.folder.rglob("*")}


def run_on_simulated_ranks(
    runner: Runner, first: int, count: int, ranks: int = 3, failed: Callable[[str], Any] | None = None
) -> None:
    """Run the cases from ``first`` on; in the last tenth one rank differs.  Raises Broken at the first.

    ``failed``: is called with the text of each one that breaks the rule instead.
    """
    with warnings.catch_warnings():  # here, since filters are those of all threads
        warnings.simplefilter("ignore")
        folder = Path(tempfile.mkdtemp())
        at, end = first, first + count
        alike = end - count // 10
        try:
            while at < end:
                differs = at >= alike
                part = 1 if differs else min(PER_WORLD, alike - at)
                runner.texts.clear(), runner.traces.clear()
                try:
                    if differs:
                        sg.run_spmd(runner.run_differing, at, folder, ranks=ranks, check=at % 3 == 0, timeout=120.0)
                    else:
                        sg.run_spmd(runner.run_alike, at, part, folder, ranks=ranks, check=at % 3 == 0, timeout=120.0)
                    at += part
                except Exception as error:
                    if differs and isinstance(error, _BETWEEN):
                        runner.counts[f"differing: {type(error).__name__}"] += 1
                        at += 1
                        continue
                    text = str(error) if isinstance(error, Broken) else f"{runner.texts}\n{traceback.format_exc()}"
                    if failed is None:
                        raise Broken(text) from error
                    failed(text)
                    at = _number_in(runner, at) + 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _number_in(runner: Runner, at: int) -> int:
    found = re.search(r"case (\d+)", " ".join(runner.texts.values()))
    return int(found[1]) if found else at
