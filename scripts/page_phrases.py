"""Phrases with figures for pages: each function makes one from the rows of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from spmd_grid.bench.arrays import report as arrays_report
from spmd_grid.bench.common.rows import NUMBA_MPI, OURS, WAITING, Row
from spmd_grid.bench.common.verdicts import slower_rows
from spmd_grid.bench.halo import report as halo_report
from spmd_grid.bench.ops import report as ops_report
from spmd_grid.bench.ops.cases import LEAST_BYTES
from spmd_grid.bench.programs import report as programs_report
from spmd_grid.bench.programs.cases import OPERATIONS, PLANNING
from spmd_grid.bench.reshard import report as reshard_report
from spmd_grid.bench.storage import report as storage_report
from spmd_grid.bench.storage.cases import BESIDE
from spmd_grid.bench.watch import report as watch_report
from spmd_grid.formatting import bytes_text

_KIB = 1024


def rows_slower(rows: Sequence[Row[Any]]) -> str:
    slower = slower_rows(rows)
    worst = min(slower, key=lambda row: row.over_best, default=None)
    return f"{len(slower)} of the {len(rows)} rows" + (
        f", at worst {worst.over_best:.2f}x ({worst.case.name})" if worst else ""
    )


def rows_far_apart(rows: Sequence[Row[Any]]) -> str:
    return f"{sum(row.far for row in rows)} of the {len(rows)} rows"


def words(rows: Sequence[Row[Any]]) -> str:
    """Nanoseconds of a word between near and between far processors, the medians."""
    texts = []
    for mood, far in ("near", False), ("far", True):
        if found := [row.hop_ns for row in rows if row.hop_ns and row.far == far]:
            texts.append(f"{median(found):.0f} ns between {mood} ones")
    return " and ".join(texts)


def rows_disturbed(rows: Sequence[Any]) -> str:
    return f"{sum(row.disturbed for row in rows)} of the {len(rows)} rows"


def value_range(values: Sequence[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def small_calls(rows: Sequence[Row[Any]]) -> str:
    """The least and the largest ratio of the best by hand to ours, on the fewest bytes."""
    fewest = min(row.case.n_bytes for row in rows)
    return times([row for row in rows if row.case.n_bytes == fewest])


def over_limit(rows: Sequence[ops_report.RowFigures]) -> str:
    """Times of plans over those of copies in place, by size and distance of the processors: the median."""
    texts = []
    for n_bytes in sorted({row.case.n_bytes for row in rows}):
        found = [
            [row.plan_over_limit for row in rows if row.case.n_bytes == n_bytes and row.far == far]
            for far in (False, True)
        ]
        medians = [f"{median(over):.1f}" if over and None not in over else "-" for over in found]
        texts.append(f"{bytes_text(n_bytes)} {' and '.join(medians)}")
    return ", ".join(texts)


def range_of(rows: Sequence[Row[Any]], contender: str) -> str:
    """Microseconds of a contender on the fewest bytes, near and far."""
    fewest = min(row.case.n_bytes for row in rows)
    texts = []
    for mood, far in ("near", False), ("far", True):
        found = [row.us(contender) for row in rows if row.case.n_bytes == fewest and row.far == far]
        if known := [us for us in found if us is not None]:
            texts.append(f"{value_range(known, 2)} us between {mood} processors")
    return " and ".join(texts)


def numba_mpi(rows: Sequence[Row[Any]]) -> str:
    """Microseconds of our plan and of numba-mpi's function in compiled loops, on the fewest bytes."""
    texts = []
    for mood, far in ("near", False), ("far", True):
        for row in rows:
            ours, theirs = row.us(ops_report.IN_LOOP), row.us(NUMBA_MPI)
            if ours is not None and theirs is not None and row.far == far and row.case.n_bytes == LEAST_BYTES:
                texts.append(f"{ours:.2f} us beside numba-mpi's {theirs:.2f} between {mood} processors")
    return " and ".join(texts)


def ratios(op: str, least: int, most: int, contender: str) -> Callable[[Sequence[Row[Any]]], str]:
    """The least and the largest ratio of the best by hand to a contender, in an operation of some sizes."""

    def phrase(rows: Sequence[Row[Any]]) -> str:
        found = [row for row in rows if row.case.op == op and least <= row.case.n_bytes <= most]
        return value_range([row.ratio(row.best(), contender) for row in found], 1)

    return phrase


def plain_slower(rows: Sequence[Row[Any]]) -> str:
    """The rows of more than some KiB in which ours is slower than by hand, from plain arrays."""
    large = [row for row in rows if row.case.n_bytes >= 8 * _KIB]
    slower = [row for row in large if row.ratio(row.best(), ops_report.NUMPY) < 1]
    names = "; ".join(f"{row.ratio(row.best(), ops_report.NUMPY):.2f}x {row.case.name}" for row in slower)
    return f"{len(slower)} of the {len(large)} rows from 8 KiB on" + (f" ({names})" if names else "")


def plain_reshardings_slower(rows: Sequence[Row[Any]]) -> str:
    """The reshardings in which ours is slower than by hand, from plain arrays."""
    ratios = [(row.ratio(row.best(), reshard_report.NUMPY), row.case.name) for row in rows]
    slower = [f"{ratio:.2f}x {name}" for ratio, name in ratios if ratio < 1]
    return f"{len(slower)} of the {len(rows)} rows" + (f" ({'; '.join(slower)})" if slower else "")


def open_lines(rows: Sequence[halo_report.RowFigures]) -> str:
    """The ratios of persistent requests to ours, where ranks have one neighbour."""
    return value_range([row.over_persistent for row in rows if not row.case.periodic], 1)


def one_neighbour(rows: Sequence[halo_report.RowFigures]) -> str:
    """Microseconds of the smallest face with one neighbour, and how many words that is."""
    texts = []
    ends = [row for row in rows if not row.case.periodic]
    fewest = min(row.case.face_bytes for row in ends)
    for mood, far in ("near", False), ("far", True):
        for row in ends:
            ours, loop = row.us(OURS), row.us(halo_report.IN_LOOP)
            if row.far == far and row.case.face_bytes == fewest and ours and loop and row.hop_ns:
                texts.append(
                    f"{ours:.2f} us from Python and {loop:.2f} us in a compiled loop between {mood} processors,"
                    f" where a word took {1e-3 * row.hop_ns:.2f} us"
                )
    return "; ".join(texts)


def plain_alltoallw(rows: Sequence[Row[Any]]) -> str:
    """The ratios of Alltoallw to ours from plain arrays, of the reshardings of rows to columns."""
    found = [row for row in rows if row.case.before == 0 and row.case.after == len(row.case.shape) - 1]
    return value_range([row.ratio(row.best("Alltoallw"), reshard_report.NUMPY) for row in found], 1)


def plans(rows: Sequence[ops_report.RowFigures]) -> str:
    """The least and the largest ratio of the best by hand to our plans."""
    return value_range([row.best_over_plan for row in rows if row.best_over_plan is not None], 1)


def waits(rows: Sequence[Row[Any]]) -> str:
    """The time in which all ranks wait for one word, and how many times as long our plans of the fewest bytes take."""
    fewest = min(row.case.n_bytes for row in rows)
    taken = [us for row in rows if (us := row.us(WAITING)) is not None]
    over = [row.ratio(ops_report.PLAN, WAITING) for row in rows if row.case.n_bytes == fewest]
    return f"{value_range(taken, 1)} us; our plans of {bytes_text(fewest)} take {value_range(over, 1)} times as long"


def times(rows: Sequence[Row[Any]]) -> str:
    """The least and the largest ratio of the best by hand to ours."""
    return value_range([row.over_best for row in rows], 1)


def large_calls(rows: Sequence[Row[Any]]) -> str:
    """The same ratios for the rows of the most bytes."""
    most = max(row.case.n_bytes for row in rows)
    return times([row for row in rows if row.case.n_bytes == most])


def swaps(rows: Sequence[Mapping[str, Any]]) -> str:
    return value_range([row["us"] for row in rows if row["case"]["kind"] == "swap"], 0)


def milliseconds(rows: Sequence[Mapping[str, Any]], beginning: str) -> str:
    """Milliseconds of the rows whose name begins with ``beginning``."""
    found = [row["ms"] for row in rows if row["row"].startswith(beginning)]
    return value_range(found, 0) if len(found) > 1 else f"{found[0]:.0f}"


def added(rows: Sequence[watch_report.WatchRow], to_exchanges: bool) -> str:
    """Microseconds that checking adds to the updates of a `HaloExchange`, or to all other operations."""
    added = [row.added_us for row in rows if row.case.name.startswith("HaloExchange") == to_exchanges]
    return value_range(added, 0) if len(added) > 1 else f"{added[0]:.0f}"


def small_sum(rows: Sequence[arrays_report.RowFigures]) -> str:
    """Microseconds that a sum of the smallest blocks takes longer than numpy's."""
    smallest = min((row for row in rows if row.case.op == "a + b"), key=lambda row: row.case.n_bytes)
    return f"{smallest.added_us:.1f}"


def limits(rows: Sequence[arrays_report.RowFigures]) -> str:
    """The rows that have limits, and those that miss them."""
    limited = [row for row in rows if row.is_met is not None]
    missed = [row.case.name for row in limited if not row.is_met]
    met = f"{len(limited) - len(missed)} of the {len(limited)} rows with a limit"
    return met + (f" (not {'; '.join(missed)})" if missed else "")


def slower_than_libraries(rows: Sequence[arrays_report.RowFigures | programs_report.RowFigures]) -> str:
    compared = [row for row in rows if row.over_library() is not None]
    slower = [row.case.name for row in compared if (row.over_library() or 0) < 1]
    if not compared:
        return "no other library was measured"
    text = f"another library is faster in {len(slower)} of the {len(compared)} rows that one has"
    return text + (f" ({'; '.join(slower)})" if slower else "")


def by_hand(rows: Sequence[programs_report.RowFigures]) -> str:
    """The ratios of programs by hand to traced ones, and how many keep the limit."""
    programs = [row for row in rows if row.case.is_program]
    met = sum(row.is_met for row in programs)
    return f"{value_range([row.over_best for row in programs], 2)} ({met} of {len(programs)} at least 0.95)"


def per_operation(rows: Sequence[programs_report.RowFigures]) -> str:
    """Microseconds that an operation takes longer than by hand."""
    (row,) = (row for row in rows if row.case.program == OPERATIONS)
    return f"{row.us_per_operation:+.2f}"


def planning(rows: Sequence[programs_report.RowFigures]) -> str:
    """Milliseconds of planning, on few devices and on very many."""
    return value_range([row.planning_ms for row in rows if row.case.program == PLANNING], 0)


def beside(rows: Sequence[storage_report.RowFigures]) -> str:
    """Milliseconds that saving beside the program adds to it, and saving as .npy before it goes on."""
    (row,) = (row for row in rows if row.case.op == BESIDE)
    added = [1e-3 * row.by_contender[name].us for name in (OURS, storage_report.NPY)]
    return "{:.0f} ms to a program that computes for 0.1 s, saving before it goes on {:.0f} ms".format(*added)
