"""Runs of random calls on all ranks, and the rule that they keep: all return, or all raise the same kind of error."""

import re
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
_KEPT = 5
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
        self.files: set[str] = set()  # on rank 0
        self.began = time.monotonic()  # of the call under way
        self.slowest: list[tuple[float, str]] = []  # calls, with their seconds
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
            sg.all_reduce(1, w.grid)  # all have written their files
            if w.grid.rank == 0:
                self.files = w.files()
            sg.all_reduce(1, w.grid)
            for number in range(first, first + count):
                self._run_one(number, w)
            w.close()
        return count

    def _run_one(self, number: int, w: World) -> None:
        rank, case = w.grid.rank, self.case_of(number, w)
        before, cores = w.cells(), w.cores(case.out)
        self._begin(rank, f"case {number} of seed {self.seed}: {case.text}")
        began, used = time.monotonic(), time.thread_time()
        found = _outcome(case, (*_DEFECTS, *_BETWEEN), self.traces, rank)
        if time.thread_time() - used > MOST_SECONDS:
            found = f"!it took {time.thread_time() - used:.0f} s of processor time"
        ends = self._ends(found, case, w)
        refused = next((each for each in ends if each != "returned"), None)
        has_failed_kernel = refused is not None and is_kernels(case, refused)
        if refused is not None and (w.cores(case.out) != cores if has_failed_kernel else w.cells() != before):
            raise Broken(f"{self.texts[rank]}\n  refused ({refused}), and an array has changed")
        if rank == 0:
            files, self.files = self.files, w.files()
            if refused is not None and self.files != files:
                raise Broken(f"{self.texts[rank]}\n  refused ({refused}), and files differ: {self.files ^ files}")
            self.slowest = sorted([*self.slowest, (time.monotonic() - began, self.texts[rank])], reverse=True)[:_KEPT]
            self.counts[(refused or "returned").partition(":")[0]] += 1
        sg.all_reduce(1, w.grid)  # so that no process writes files while another looks at them

    def _begin(self, rank: int, text: str) -> None:
        self.texts[rank] = text
        self.began = time.monotonic()

    def _ends(self, found: str, case: Case, w: World) -> list[str]:
        """The ends of the call on all processes, by rank; ``found``: on this one.  Raises Broken if they break a rule.

        If the kernel of map_overlap has failed on some of them, or in other ways, the next operation raises
        MismatchError on all, and the one after it works.
        """
        rank = w.grid.rank
        frame = np.zeros(_FRAME, np.uint8)
        told = found.encode("utf-8", "replace")[:_FRAME]
        frame[: len(told)] = np.frombuffer(told, np.uint8)
        frame, is_told = frame.reshape(1, -1), False
        try:
            try:
                frames = sg.all_gather(frame, w.grid, [0], 0)
            except errors.MismatchError:
                if case.name != "map_overlap":
                    raise
                is_told, frames = True, sg.all_gather(frame, w.grid, [0], 0)
        except errors.SpmdError as error:
            raise Broken(
                f"{self.texts[rank]}\n  rank {rank}: {found}\n  then {type(error).__name__}: {error}"
            ) from error
        ends = [bytes(each).rstrip(b"\0").decode("utf-8", "replace") for each in frames]
        has_bad = any(each.startswith("!") for each in ends)
        are_kernels = all(each == "returned" or is_kernels(case, each) for each in ends)
        differ = len({each.partition(":")[0] for each in ends}) > 1
        if has_bad or is_told != (are_kernels and differ) or (len(set(ends)) > 1 and not are_kernels):
            said = "\n".join(f"  rank {i}: {each}" for i, each in enumerate(ends))
            raise Broken(f"{self.texts[rank]}\n{said}\n{self.traces.get(rank, '')}")
        return ends

    def run_differing(self, number: int, folder: Path) -> str:
        """Run one call with another argument on one process, and tell how it ended here.  Collective."""
        with np.errstate(all="ignore"):
            w = World(folder, number)
            rank = w.grid.rank
            case = self.case_of(number, w, differs=True)
            self._begin(rank, f"case {number} of seed {self.seed}, which differs on rank 1: {case.text}")
            found = _outcome(case, _DEFECTS, self.traces, rank)
            if found.startswith("!"):
                raise Broken(f"{self.texts[rank]}\n  rank {rank}: {found}\n{self.traces.get(rank, '')}")
            return found


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


def is_kernels(case: Case, end: str) -> bool:
    """Whether a call ended with the error of a kernel: then halos are filled, and ``out`` is written in part."""
    return case.name == "map_overlap" and not hasattr(errors, end.partition(":")[0]) and end != "returned"


def run_on_simulated_ranks(
    runner: Runner, first: int, count: int, ranks: int = 3, failed: Callable[[str], Any] | None = None
) -> None:
    """Run the cases from ``first`` on; in the last tenth one rank differs.  Raises Broken at the first.

    ``failed``: is called with the text of each one that breaks the rule instead.
    """
    with warnings.catch_warnings():  # here, since filters are those of all threads
        warnings.simplefilter("ignore")
        at, end = first, first + count
        alike = end - count // 10
        while at < end:
            differs = at >= alike
            part = 1 if differs else min(PER_WORLD, alike - at)
            runner.texts.clear(), runner.traces.clear()
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
                folder, how = Path(name), {"ranks": ranks, "check": at % 3 == 0, "timeout": 120.0}
                try:
                    if differs:
                        ends = sg.run_spmd(runner.run_differing, at, folder, **how)
                        runner.counts[f"differing: {ends[0].partition(':')[0]}"] += 1
                    else:
                        sg.run_spmd(runner.run_alike, at, part, folder, **how)
                    at += part
                except Exception as error:
                    if differs and isinstance(error, _BETWEEN):
                        runner.counts[f"differing: {type(error).__name__}"] += 1
                        at += 1
                        continue
                    text = str(error) if isinstance(error, Broken) else f"{runner.texts}\n{traceback.format_exc()}"
                    if failed is None:
                        raise Broken(text) from error
                    runner.counts["broke the rule"] += 1
                    failed(text)
                    at = _number_in(runner, at) + 1


def _number_in(runner: Runner, at: int) -> int:
    found = re.search(r"case (\d+)", " ".join(runner.texts.values()))
    return int(found[1]) if found else at
