"""Summary of a trace as text: time at work and waiting, the longest operations, and the heaviest traffic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from spmd_grid.formatting import aligned, bytes_text, seconds_text
from spmd_grid.watch.trace.reading import Trace, TracedOperation

__all__ = ["trace_summary"]

_MOST_RANKS, _MOST_ROWS = 64, 12


def trace_summary(trace: Trace) -> str:
    """The summary of a trace, in several tables.  Local."""
    ranks = f"{trace.size} rank{'s' * (trace.size != 1)}"
    count = sum(map(len, trace.operations.values()))
    lines = [f"{count} operations of {ranks} in {_time(trace.span)}"]
    if trace.missing:
        lines += [
            f"no trace of rank {', '.join(map(str, trace.missing[:_MOST_RANKS]))}:"
            " each rank writes to the folder of its own host;",
            "  name a folder that all hosts share, or copy the files rank-*.json of all hosts into one folder",
        ]
    if trace.lost:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in list(trace.lost.items())[:_MOST_RANKS])
        lost = sum(trace.lost.values())
        lines.append(f"missing: {lost} updates in compiled loops that could not be written ({ranks})")
    return "\n".join([*lines, "", *_ranks(trace), "", *_operations(trace), "", *_pairs(trace)])


def _ranks(trace: Trace) -> list[str]:
    """Time of each rank in operations, waiting and between operations, and the imbalance of these."""
    inside = {rank: sum(operation.took for operation in operations) for rank, operations in trace.operations.items()}
    waited = {rank: sum(operation.waited for operation in operations) for rank, operations in trace.operations.items()}
    totals = {
        rank: operations[-1].ended - operations[0].began if operations else 0.0
        for rank, operations in trace.operations.items()
    }
    between = {rank: totals[rank] - inside[rank] for rank in totals}
    rows = [
        (
            trace.labels[rank],
            _time(totals[rank]),
            _part(inside[rank], totals[rank]),
            _part(waited[rank], totals[rank]),
            _part(between[rank], totals[rank]),
        )
        for rank in list(totals)[:_MOST_RANKS]
    ]
    if len(totals) > _MOST_RANKS:
        rows.append((f"... {len(totals) - _MOST_RANKS} more", "", "", "", ""))
    work = {rank: inside[rank] - waited[rank] for rank in totals}
    return [
        *aligned([("", "total", "in operations", "of it waiting", "between them"), *rows]),
        f"load: {_imbalance(between, 'between operations', trace)};",
        f"      {_imbalance(work, 'at work in operations', trace)}",
    ]


def _imbalance(times: dict[int, float], what: str, trace: Trace) -> str:
    """The rank with the longest time, in comparison with the mean."""
    mean = sum(times.values()) / len(times)
    slowest = max(times, key=lambda rank: times[rank])
    more = f"{times[slowest] / mean:.2f} x the mean" if mean > 0 else "as all"
    return f"{trace.labels[slowest]} is longest {what}, {more} of {_time(mean)}"


def _operations(trace: Trace) -> list[str]:
    """Time of operations over all ranks, the longest first."""
    groups: dict[str, list[TracedOperation]] = defaultdict(list)
    for operation in trace.all_operations():
        groups[operation.name].append(operation)
    ordered = sorted(groups.items(), key=lambda item: -sum(operation.took for operation in item[1]))
    rows = []
    for name, operations in ordered[:_MOST_ROWS]:
        longest = max(operations, key=lambda operation: operation.took)
        total = sum(operation.took for operation in operations)
        waited = sum(operation.waited for operation in operations)
        where = f"{longest.where}, rank {longest.rank}"
        rows.append((name, str(len(operations)), _time(total), _part(waited, total), _time(longest.took), where))
    heads = ("operation", "count", "total", "waiting", "longest", "where")
    return aligned([heads, *rows], left=(0, 5)) + _more(ordered, "operations")


def _pairs(trace: Trace) -> list[str]:
    """The pairs of ranks that sent most, as lines of text."""
    matrix = trace.matrix()
    if not matrix:
        return ["nothing went from rank to rank"]
    ordered = sorted(matrix.items(), key=lambda item: (-item[1], item[0]))
    rows = [(f"rank {a} -> rank {b}", bytes_text(n_bytes)) for (a, b), n_bytes in ordered[:_MOST_ROWS]]
    rows.append(("all", bytes_text(sum(matrix.values()))))
    return aligned([("heaviest pairs", "bytes"), *rows]) + _more(ordered, "pairs")


def _more(rows: Sequence, what: str) -> list[str]:
    return [f"... {len(rows) - _MOST_ROWS} more {what}"] if len(rows) > _MOST_ROWS else []


def _part(time: float, whole: float) -> str:
    return f"{_time(time)} {time / whole if whole > 0 else 0.0:4.0%}"


def _time(microseconds: float) -> str:
    return seconds_text(1e-6 * microseconds)
