"""Traces read again: the files of all processes joined, on one clock, and what can be told from them.

How long an operation *waited* follows one rule: until the last of those it needs began theirs.  Which operations belong
together is known from the order in which a group's members begin them, or from the turn that they name (`Traffic`);
members of a collective need all others, a halo exchange its neighbours, a receive its sender.  An operation that only
ends a started one (``wait``) waits from its beginning to its end.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from spmd_grid.errors import OutputError

__all__ = ["Step", "Trace", "read_trace"]

_JOINED = "trace.json"


@dataclass
class Step:
    """One operation of one process.  Times are microseconds since the first operation of all began."""

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
        return self.began + self.took


class Trace:
    """The ``steps`` of every process in order, by rank; ``labels`` of the processes; ``size``: how many there were.

    ``lost``: how many updates of compiled loops could not be written, of the processes with any.
    """

    def __init__(self, folder: Path, files: dict[int, list[dict]]):
        self._folder = folder
        self._events = files
        self.labels, clocks, self.size = {}, {}, len(files)
        self.lost: dict[int, int] = {}
        for rank, events in files.items():
            told = [event for event in events if event["ph"] == "M"]
            names = [event["args"] for event in told if event["name"] == "thread_name"]
            for event in told:
                if event["name"] == "lost":
                    self.lost[rank] = event["args"]["count"]
            self.labels[rank] = names[-1]["name"] if names else f"rank {rank}"
            clocks[rank] = names[0] if names else {"machine": "", "clock": 0.0}
            self.size = max(self.size, rank + 1, names[0]["size"] if names else 0)
        # Processes of one machine share a clock; those of several are told apart by the time of day.
        several = len({clock["machine"] for clock in clocks.values()}) > 1
        shift = {rank: clock["clock"] * 1e6 if several else 0.0 for rank, clock in clocks.items()}
        done = {rank: [event for event in events if event["ph"] == "X"] for rank, events in files.items()}
        first = min((event["ts"] + shift[rank] for rank, events in done.items() for event in events), default=0.0)
        for rank, events in done.items():
            for event in events:
                event["ts"] = round(event["ts"] + shift[rank] - first, 3)
        self.steps = {rank: [_step(rank, event) for event in events] for rank, events in done.items()}
        self._find_waits(done)

    @property
    def missing(self) -> list[int]:
        """The processes that have left no file."""
        return [rank for rank in range(self.size) if rank not in self.steps]

    @property
    def labels_of_all(self) -> dict[int, str]:
        """What every process is called, those without a file included."""
        return {rank: self.labels.get(rank, f"rank {rank}") for rank in range(self.size)}

    @property
    def span(self) -> float:
        """Microseconds from the first beginning to the last end."""
        return max((step.ended for step in self.all_steps()), default=0.0)

    def all_steps(self) -> Iterable[Step]:
        """The steps of all processes."""
        return (step for steps in self.steps.values() for step in steps)

    def matrix(self) -> dict[tuple[int, int], int]:
        """The bytes from process to process, of those that send any."""
        sums: dict[tuple[int, int], int] = defaultdict(int)
        for step in self.all_steps():
            for peer, n_bytes in step.sent.items():
                if n_bytes:
                    sums[step.rank, peer] += n_bytes
        return dict(sums)

    def write_joined(self) -> Path:
        """Writes all files as one, which Chrome (chrome://tracing) and Perfetto show; its path.

        Local.  Raises OutputError where it cannot be written.
        """
        head = [{"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "spmd_grid"}}]
        for rank in sorted(self.labels):
            head.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": rank, "args": {"name": self.labels[rank]}})
            head.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": rank, "args": {"sort_index": rank}})
        done = [event for events in self._events.values() for event in events if event["ph"] == "X"]
        lines = [json.dumps(event, separators=(",", ":")) for event in [*head, *done]]
        return self.write(_JOINED, "[\n" + ",\n".join(lines) + "\n]\n")

    def write(self, name: str, text: str) -> Path:
        """Writes a file into the folder of the trace; its path.  Local.  Raises OutputError where it cannot."""
        path = self._folder / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {str(path)!r}: {error.strerror}") from None
        return path

    def _find_waits(self, done: dict[int, list[dict]]) -> None:
        # When each process began its n-th operation of a series.
        series: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for rank, events in done.items():
            for event in events:
                args = event["args"]
                if "meets" in args:
                    begins = series[args["meets"]][rank]
                    begins[args.setdefault("turn", len(begins))] = event["ts"]
        for rank, events in done.items():
            for event, step in zip(events, self.steps[rank], strict=True):
                if "meets" in event["args"]:
                    met, turn = series[event["args"]["meets"]], event["args"]["turn"]
                    needed = event["args"].get("awaits", met)
                    begins = [met[other][turn] for other in needed if other in met and turn in met[other]]
                    step.waited = min(max([0.0, *(begin - step.began for begin in begins)]), step.took)
                elif step.name == "wait" or step.name.endswith(".wait"):
                    step.waited = step.took
                event["args"]["waited_us"] = round(step.waited, 3)


def read_trace(folder: str | Path) -> Trace:
    """What all processes of a run have written into ``folder``.

    Local.  Raises OutputError where there is nothing.
    """
    folder, files = Path(folder), {}
    for path in folder.glob("rank-*.json"):
        number = path.stem.removeprefix("rank-")
        if number.isdecimal():
            files[int(number)] = _events(path)
    if not files:
        raise OutputError(
            f"{str(folder)!r} holds no trace: no files rank-0.json and so on, as SPMD_GRID_TRACE makes them"
        )
    return Trace(folder, dict(sorted(files.items())))


def _events(path: Path) -> list[dict]:
    """The events of a file; its last line may be torn."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line.rstrip(",\n "))
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("ph") in ("M", "X"):
            if event["args"].get("turn") == 0:  # an update in a compiled loop that failed, and moved nothing
                event["args"] = {"call": event["args"]["call"], "where": event["args"]["where"], "failed": True}
            found.append(event)
    return found


def _step(rank: int, event: dict) -> Step:
    args = event["args"]
    sent = {int(peer): n_bytes for peer, n_bytes in args.get("sent", {}).items()}
    return Step(rank, event["name"], args["call"], args["where"], event["ts"], event["dur"], sent, args.get("path", ""))
