"""The picture of a program that does not go on: what every rank does, in a line each.

Knows nothing of how the ranks' states come together: see the transports.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spmd_grid.watch.recorder import FAILED, Record, Recorder, label_in, records_in

__all__ = ["RankState", "ended_state", "picture", "read_state", "unknown_state"]

# Of so many ranks each gets a line of its own; of more, those that do the same share one.
_MOST_LINES = 8
# So many of the operations in which ranks differ from the majority are shown, with so many of a rank's last ones.
_SHOWN_RANKS, _SHOWN_OPERATIONS = 4, 3
# A compiled loop that was last seen waiting longer ago than this goes on.
_SEEN_SECONDS = 1.0

_SILENT = " (does not answer: it computes without giving Python a chance)"
_ALL_SILENT = " (do not answer: they compute without giving Python a chance)"


@dataclass(frozen=True)
class RankState:
    """What one rank does, as seen at the time ``now`` of its own machine.

    ``label``: how it is called, ``rank 3 (1, 0)``; ``records``: its last operations; ``at``: the user's line it is at,
    where it can tell; ``answers``: whether it has told itself, rather than somebody who looked into its memory;
    ``word``: what is to be said of it in place of all that; ``stops_clocks``: whether nobody waits too long (`clocks`).
    """

    label: str
    now: float = 0.0
    records: tuple[Record, ...] = ()
    at: str = ""
    answers: bool = False
    word: str = ""
    stops_clocks: bool = False

    @classmethod
    def of(cls, label: str, recorder: Recorder | None, at: str = "", stops_clocks: bool = False) -> RankState:
        """What a rank of this process does.  Any thread may ask."""
        records = () if recorder is None else tuple(recorder.last(_SHOWN_OPERATIONS))
        return cls(label, time.monotonic(), records, at, answers=True, stops_clocks=stops_clocks)

    @property
    def last(self) -> Record | None:
        return self.records[-1] if self.records else None


def read_state(rank: int, memory: np.ndarray) -> RankState:
    """What the rank does whose recorder has ``memory``, although it does not answer."""
    label = label_in(memory) or f"rank {rank}"
    return RankState(label, time.monotonic(), tuple(records_in(memory, _SHOWN_OPERATIONS)))


def ended_state(label: str) -> RankState:
    """Of a rank that has ended."""
    return RankState(label, word="has ended")


def unknown_state(rank: int) -> RankState:
    """Of a rank of another node that does not answer."""
    return RankState(f"rank {rank}", word="does not answer, nor does its node")


def picture(states: Mapping[int, RankState], limit: float) -> str:
    """What all ranks do, the longest waits in a group of equals; then the last operations of those that differ."""
    lines = [f"no progress for {limit:.3g} s (SPMD_GRID_TIMEOUT or timeout=); what every rank does:"]
    groups: dict[tuple, list[int]] = {}
    for rank in sorted(states):
        key = (*_words(states[rank], limit), *(() if len(states) > _MOST_LINES else (rank,)))
        groups.setdefault(key, []).append(rank)
    for (one, many, rest, *_), ranks in groups.items():
        seconds = max(_seconds(states[rank]) for rank in ranks)
        if len(ranks) == 1:
            line = f"{states[ranks[0]].label} {one}{rest}"
        else:
            line = f"ranks {_spans(ranks)} {many}{rest.replace(_SILENT, _ALL_SILENT)}"
        lines.append(f"  {line.replace(_TIME, f'{seconds:.1f} s')}")
    for rank in _others(states):
        lines.append(f"the last operations of {states[rank].label}:")
        lines += [f"  {_line(record, states[rank].now)}" for record in states[rank].records]
    return "\n".join(lines)


_TIME = "\0"  # stands for how long


def _words(state: RankState, limit: float) -> tuple[str, str, str]:
    """The verb of one rank and of many, and what follows; without the time, in which equals may differ."""
    if state.word:
        one, _, rest = state.word.partition(" ")
        return one, {"has": "have", "does": "do"}.get(one, one), f" {rest}"
    last = state.last
    where = "" if not state.at or (last is not None and state.at == last.where) else f", now at {state.at}"
    silent = "" if state.answers else _SILENT
    if last is None:
        return "computes", "compute", f", no operation on record{where}{silent}"
    named = f"{last.what} #{last.number}"
    if _is_in(last, state.now):
        verbs = ("waits in", "wait in") if last.waited(state.now) > limit / 2 else ("is in", "are in")
        return *verbs, f" {named} for {_TIME} at {last.where}{where}{silent}"
    end = "failed" if last.state == FAILED else "ended"
    return "computes", "compute", f" since {named} {end} {_TIME} ago at {last.where}{where}{silent}"


def _is_in(record: Record, now: float) -> bool:
    waited = record.waited(now)
    return waited > 0 and (record.ended == 0 or now - record.ended < _SEEN_SECONDS)


def _seconds(state: RankState) -> float:
    last = state.last
    if last is None:
        return 0.0
    return last.waited(state.now) if _is_in(last, state.now) else state.now - last.ended


def _others(states: Mapping[int, RankState]) -> list[int]:
    """Of the ranks whose last operation is not that of most: one for each operation."""
    last = {rank: (states[rank].last.what, states[rank].last.where) for rank in sorted(states) if states[rank].records}
    if not last:
        return []
    usual, count = Counter(last.values()).most_common(1)[0]
    first: dict[tuple, int] = {}
    for rank, operation in last.items():
        if 2 * count <= len(last) or operation != usual:
            first.setdefault(operation, rank)
    return list(first.values())[:_SHOWN_RANKS]


def _line(record: Record, now: float) -> str:
    if _is_in(record, now):
        how = f"begun {now - record.began:.1f} s ago"
    else:
        end = "failed" if record.state == FAILED else "ended"
        how = f"took {record.ended - record.began:.1f} s, {end} {now - record.ended:.1f} s ago"
    return f"#{record.number} {record.what} at {record.where}: {how}"


def _spans(ranks: list[int]) -> str:
    """``0-2, 5``: ascending ranks, runs of them by their ends.

    >>> _spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
