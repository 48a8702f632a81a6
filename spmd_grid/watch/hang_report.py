"""The report of a program that makes no progress: a line for each rank.

The transports collect the states of the ranks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spmd_grid.formatting import spans
from spmd_grid.watch.recorder import FAILED, OperationRecord, Recorder, label_in, records_in

__all__ = ["RankState", "ended_state", "picture", "read_state", "unknown_state"]

# Up to this many ranks get a line each; of more ranks, those that do the same share a line.
_MOST_LINES = 8
# Number of ranks shown whose operation differs from that of the majority, and of the last operations of each.
_SHOWN_RANKS, _SHOWN_OPERATIONS = 4, 3
# A compiled loop that was last seen waiting longer ago than this has left the wait.
_SEEN_SECONDS = 1.0

_SILENT = " (does not answer: it computes without giving Python a chance)"
_STOPPED = " (does not answer: it is stopped)"
_OF_MANY = {
    _SILENT: " (do not answer: they compute without giving Python a chance)",
    _STOPPED: " (do not answer: they are stopped)",
}


@dataclass(frozen=True)
class RankState:
    """The state of one rank at the time ``now`` of its own machine.

    ``label``: its name, ``rank 3 (1, 0)``; ``records``: its last operations; ``at``: its current call site, if known;
    ``answers``: whether the rank reported this itself, rather than another process that read its memory; ``status``: a
    text that replaces all that in the report; ``stops_clocks``: whether time limits pause for it (`clocks`);
    ``is_stopped``: whether the system does not let it run.
    """

    label: str
    now: float = 0.0
    records: tuple[OperationRecord, ...] = ()
    at: str = ""
    answers: bool = False
    status: str = ""
    stops_clocks: bool = False
    is_stopped: bool = False

    @classmethod
    def of(cls, label: str, recorder: Recorder | None, at: str = "", stops_clocks: bool = False) -> RankState:
        """The state of a rank of this process.  From any thread."""
        records = () if recorder is None else tuple(recorder.last(_SHOWN_OPERATIONS))
        return cls(label, time.monotonic(), records, at, answers=True, stops_clocks=stops_clocks)

    @property
    def last(self) -> OperationRecord | None:
        """Its last operation."""
        return self.records[-1] if self.records else None


def read_state(rank: int, memory: np.ndarray | None, is_stopped: bool) -> RankState:
    """The state of a rank that does not answer, read from the ``memory`` of its recorder if it has one."""
    label = "" if memory is None else label_in(memory)
    records = () if memory is None else tuple(records_in(memory, _SHOWN_OPERATIONS))
    return RankState(label or f"rank {rank}", time.monotonic(), records, is_stopped=is_stopped)


def ended_state(label: str, stops_clocks: bool = False) -> RankState:
    """The state of a rank that has ended, and waits for the others."""
    return RankState(label, status="has ended", answers=True, stops_clocks=stops_clocks)


def unknown_state(rank: int, host: str = "") -> RankState:
    """The state of a rank of another node, the ``host`` if it is known, that does not answer."""
    return RankState(f"rank {rank}", status=f"does not answer, nor does its node{f' ({host})' if host else ''}")


def picture(states: Mapping[int, RankState], limit: float, has_limit: bool = True) -> str:
    """The text of the report: a line per rank, or per group of ranks that do the same, with the longest wait of each.

    The last operations of ranks that differ from the majority follow.  ``has_limit``: False where the job goes on.
    """
    why = "(SPMD_GRID_TIMEOUT or timeout=)" if has_limit else "since ranks have ended; the job goes on, without a limit"
    lines = [f"no progress for {limit:.3g} s {why}; what every rank does:"]
    groups: dict[tuple[str, str, str, int], list[int]] = {}
    for rank in sorted(states):
        own_line = -1 if len(states) > _MOST_LINES else rank
        groups.setdefault((*_phrases(states[rank], limit), own_line), []).append(rank)
    for (one, many, rest, _), ranks in groups.items():
        seconds = max(_seconds(states[rank]) for rank in ranks)
        if len(ranks) == 1:
            line = f"{states[ranks[0]].label} {one}{rest}"
        else:
            for of_one, of_many in _OF_MANY.items():
                rest = rest.replace(of_one, of_many)
            line = f"ranks {spans(ranks)} {many}{rest}"
        lines.append(f"  {line.replace(_TIME, f'{seconds:.1f} s')}")
    for rank in _others(states):
        lines.append(f"the last operations of {states[rank].label}:")
        lines += [f"  {_line(record, states[rank].now)}" for record in states[rank].records]
    return "\n".join(lines)


_TIME = "\0"  # stands for the seconds


def _phrases(state: RankState, limit: float) -> tuple[str, str, str]:
    """The verb for one rank and for many, and the rest of the line, without the seconds, which may differ."""
    if state.status:
        one, _, rest = state.status.partition(" ")
        return one, {"has": "have", "does": "do"}.get(one, one), f" {rest}"
    last = state.last
    where = "" if not state.at or (last is not None and state.at == last.where) else f", now at {state.at}"
    silent = "" if state.answers else _STOPPED if state.is_stopped else _SILENT
    if last is None:
        return "computes", "compute", f", no operation on record{where}{silent}"
    named = f"{last.what} #{last.number}"
    if _is_in(last, state.now):
        verbs = ("waits in", "wait in") if last.waited(state.now) > limit / 2 else ("is in", "are in")
        return *verbs, f" {named} for {_TIME} at {last.where}{where}{silent}"
    end = "failed" if last.state == FAILED else "ended"
    return "computes", "compute", f" since {named} {end} {_TIME} ago at {last.where}{where}{silent}"


def _is_in(record: OperationRecord, now: float) -> bool:
    """Whether the operation is under way."""
    waited = record.waited(now)
    return waited > 0 and (record.ended == 0 or now - record.ended < _SEEN_SECONDS)


def _seconds(state: RankState) -> float:
    """Seconds in the last operation, or since its end."""
    last = state.last
    if last is None:
        return 0.0
    return last.waited(state.now) if _is_in(last, state.now) else state.now - last.ended


def _others(states: Mapping[int, RankState]) -> list[int]:
    """The ranks whose last operation is not that of the majority: one for each operation."""
    records = {rank: states[rank].records[-1] for rank in sorted(states) if states[rank].records}
    last = {rank: (record.what, record.where) for rank, record in records.items()}
    if not last:
        return []
    usual, count = Counter(last.values()).most_common(1)[0]
    first: dict[tuple[str, str], int] = {}
    for rank, operation in last.items():
        if 2 * count <= len(last) or operation != usual:
            first.setdefault(operation, rank)
    return list(first.values())[:_SHOWN_RANKS]


def _line(record: OperationRecord, now: float) -> str:
    if _is_in(record, now):
        how = f"begun {now - record.began:.1f} s ago"
    else:
        end = "failed" if record.state == FAILED else "ended"
        how = f"took {record.ended - record.began:.1f} s, {end} {now - record.ended:.1f} s ago"
    return f"#{record.number} {record.what} at {record.where}: {how}"
