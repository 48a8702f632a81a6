"""Read traces: join the files of all processes on one clock, and find the waits.

An operation *waits* until the last of the processes that it needs has begun its own.  Operations belong together by the
order in which a group's members begin them, or by the turn that they name (`Traffic`); members of a collective need all
others, a halo exchange its neighbours, a receive its sender.  An operation that only ends a started one (``wait``)
waits from its beginning to its end.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spmd_grid.errors import OutputError
from spmd_grid.file_text import text_of
from spmd_grid.watch.trace.events import MOST_RANKS, as_event

__all__ = ["TracedOperation", "Trace", "read_trace"]

_JOINED = "trace.json"
_MOST_BYTES = 4 << 30  # of a file that is read


@dataclass
class TracedOperation:
    """One operation of one process.  Times are microseconds since the first operation of the trace began."""

    rank: int
    name: str
    call: str
    where: str
    began: float
    took: float
    sent: dict[int, int] = field(default_factory=dict)
    path: str = ""
    waited: float = 0.0

    @property
    def ended(self) -> float:
        """The time of its end."""
        return self.began + self.took


class Trace:
    """The ``operations`` of every process in order, by rank; ``labels`` and number (``size``) of the processes.

    ``lost``: number of updates of compiled loops that could not be written, for the processes with any.
    """

    def __init__(self, folder: Path, files: dict[int, list[dict[str, Any]]]):
        self._folder = folder
        self._events = files
        self.labels: dict[int, str] = {}
        self.size = len(files)
        clocks: dict[int, dict[str, Any]] = {}
        self.lost: dict[int, int] = {}
        for rank, events in files.items():
            metadata = [event for event in events if event["ph"] == "M"]
            names = [event["args"] for event in metadata if event["name"] == "thread_name"]
            for event in metadata:
                if event["name"] == "lost":
                    self.lost[rank] = event["args"]["count"]
            self.labels[rank] = names[-1]["name"] if names else f"rank {rank}"
            clocks[rank] = names[0] if names else {"machine": "", "clock": 0.0}
            self.size = max(self.size, rank + 1, names[0]["size"] if names else 0)
        shift = _shifts(clocks)
        done = {rank: [event for event in events if event["ph"] == "X"] for rank, events in files.items()}
        first = min((event["ts"] + shift[rank] for rank, events in done.items() for event in events), default=0.0)
        for rank, events in done.items():
            for event in events:
                event["ts"] = round(event["ts"] + shift[rank] - first, 3)
        self.operations = {rank: [_operation(rank, event) for event in events] for rank, events in done.items()}
        self._find_waits(done)

    @property
    def missing(self) -> list[int]:
        """The processes that have left no file."""
        return [rank for rank in range(self.size) if rank not in self.operations]

    @property
    def labels_of_all(self) -> dict[int, str]:
        """The labels of all processes, including those without a file."""
        return {rank: self.labels.get(rank, f"rank {rank}") for rank in range(self.size)}

    @property
    def span(self) -> float:
        """Microseconds from the first beginning to the last end."""
        return max((operation.ended for operation in self.all_operations()), default=0.0)

    def all_operations(self) -> Iterable[TracedOperation]:
        """The operations of all processes."""
        return (operation for operations in self.operations.values() for operation in operations)

    def matrix(self) -> dict[tuple[int, int], int]:
        """Bytes from process to process, for the pairs with any."""
        sums: dict[tuple[int, int], int] = defaultdict(int)
        for operation in self.all_operations():
            for peer, n_bytes in operation.sent.items():
                if n_bytes:
                    sums[operation.rank, peer] += n_bytes
        return dict(sums)

    def write_joined(self) -> Path:
        """Write all files as one, which Chrome (chrome://tracing) and Perfetto show; return its path.

        Local.  Raises OutputError if it cannot be written.
        """
        head: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "spmd_grid"}}
        ]
        for rank in sorted(self.labels):
            head.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": rank, "args": {"name": self.labels[rank]}})
            head.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": rank, "args": {"sort_index": rank}})
        done = [event for events in self._events.values() for event in events if event["ph"] == "X"]
        lines = [json.dumps(event, separators=(",", ":")) for event in [*head, *done]]
        return self.write(_JOINED, "[\n" + ",\n".join(lines) + "\n]\n")

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder of the trace; return its path.  Local.  Raises OutputError."""
        path = self._folder / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {str(path)!r}: {error.strerror}") from None
        return path

    def _find_waits(self, done: dict[int, list[dict[str, Any]]]) -> None:
        """Set how long each operation waited."""
        # The time at which each process began its n-th operation of a series.
        began: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for rank, events in done.items():
            for event in events:
                args = event["args"]
                if "series" in args:
                    own = began[args["series"]][rank]
                    own[args.setdefault("turn", len(own))] = event["ts"]
        for rank, events in done.items():
            for event, operation in zip(events, self.operations[rank], strict=True):
                if "series" in event["args"]:
                    all_of, turn = began[event["args"]["series"]], event["args"]["turn"]
                    needed = event["args"].get("awaits", all_of)
                    begins = [all_of[other][turn] for other in needed if other in all_of and turn in all_of[other]]
                    operation.waited = min(max([0.0, *(begin - operation.began for begin in begins)]), operation.took)
                elif operation.name == "wait" or operation.name.endswith(".wait"):
                    operation.waited = operation.took
                event["args"]["waited_us"] = round(operation.waited, 3)


def _shifts(clocks: dict[int, dict[str, Any]]) -> dict[int, float]:
    """Microseconds to add to the times of each process.

    Processes of one machine share a clock.  Those of several have measured how far their clocks are apart; traces made
    without that are aligned by the time of day.
    """
    if all("offset" in clock for clock in clocks.values()):
        return {rank: clock["offset"] * 1e6 for rank, clock in clocks.items()}
    several = len({clock["machine"] for clock in clocks.values()}) > 1
    return {rank: clock["clock"] * 1e6 if several else 0.0 for rank, clock in clocks.items()}


def read_trace(folder: str | Path, *more: str | Path) -> Trace:
    """Read the files that all processes of a run have written into ``folder``; into several, if hosts share none.

    Local.  Raises OutputError if a folder has none, or two folders have those of one process.
    """
    folders = [Path(each) for each in (folder, *more)]
    paths: dict[int, Path] = {}
    for each in folders:
        found = {path.stem.removeprefix("rank-"): path for path in each.glob("rank-*.json")}
        numbers = [number for number in found if number.isascii() and number.isdecimal() and len(number) < 9]
        numbered = {int(number): found[number] for number in numbers if int(number) < MOST_RANKS}
        if not numbered:
            raise OutputError(
                f"{str(each)!r} holds no trace: no files rank-0.json and so on, as SPMD_GRID_TRACE makes them"
            )
        for rank in sorted(numbered.keys() & paths.keys()):
            raise OutputError(
                f"{str(numbered[rank])!r} and {str(paths[rank])!r} are both of rank {rank}; the folders must hold the"
                " files of one run, each process's once"
            )
        paths |= numbered
    try:
        return Trace(folders[0], {rank: _events(paths[rank]) for rank in sorted(paths)})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:  # lines of somebody else's
        raise OutputError(f"{str(folders[0])!r} holds no trace as SPMD_GRID_TRACE makes them: {error!r}") from None


def _events(path: Path) -> list[dict[str, Any]]:
    """The events of a file; its last line may be incomplete."""
    found = []
    try:
        lines = text_of(path, _MOST_BYTES, errors="replace").splitlines()
    except OSError as error:
        raise OutputError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    for line in lines:
        try:
            event = as_event(json.loads(line.rstrip(",\n ")))
        except (ValueError, RecursionError):
            continue
        except (TypeError, LookupError, AttributeError, ArithmeticError):
            raise OutputError(f"{str(path)!r} is no trace: {line[:80]!r} is no event of one") from None
        if event is not None:
            found.append(event)
    return found


def _operation(rank: int, event: dict[str, Any]) -> TracedOperation:
    args = event["args"]
    sent = {int(peer): n_bytes for peer, n_bytes in args.get("sent", {}).items()}
    name, call, where, path = map(str, (event["name"], args["call"], args["where"], args.get("path", "")))
    return TracedOperation(rank, name, call, where, float(event["ts"]), float(event["dur"]), sent, path)
