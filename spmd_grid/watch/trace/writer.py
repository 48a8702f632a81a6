"""The trace that a process writes while it runs: a line per finished operation, in a file of its own.

Lines are written at once, so that only the operation under way is missing when a program ends in any way.  A file is in
the Trace Event Format that Chrome and Perfetto read (its array form, in which the closing bracket may be missing);
times are microseconds of ``time.monotonic()``, which all processes of a machine share.  `reading` joins the files.
"""

from __future__ import annotations

import atexit
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from typing import Any

from spmd_grid.errors import OutputError
from spmd_grid.watch.recorder import FAILED, OperationRecord
from spmd_grid.watch.trace.loops import Form, LoopLines
from spmd_grid.watch.traffic import HasTraffic, Traffic

__all__ = ["TraceWriter", "file_of", "machine", "remove_files"]

_NAME = re.compile(r"[\w.]+")


def file_of(folder: Path, rank: int) -> Path:
    """The file to which a process writes its trace.  Local."""
    return folder / f"rank-{rank}.json"


class TraceWriter:
    """Writes the trace of one process of ``size``; ``label()`` names the process.

    A recorder calls ``note`` when an operation has ended, and ``form`` for the updates of compiled loops.

    ``offset``: seconds by which the clock of the first process is ahead of this one's, if they may differ.

    Local.  Raises OutputError if the folder cannot be written.  If a later line cannot be written (a full disk), a
    line says so, and the program continues without a trace of this process.
    """

    def __init__(self, folder: str, rank: int, size: int, label: Callable[[], str], offset: float | None = None):
        self._rank, self._size, self._label, self._offset = rank, size, label, offset
        self._is_told = False  # whether the user knows that a line could not be written
        self._named = ""
        path = file_of(Path(folder), rank)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "w", encoding="utf-8", buffering=1)  # by lines
            self._file.write("[\n")
        except OSError as error:
            raise OutputError(f"the trace cannot be written to {str(path)!r}: {error.strerror}") from None
        self._loops, self._lost = LoopLines(self._file.fileno()), 0
        atexit.register(self._write_lost)
        self._name_process()

    def note(self, record: OperationRecord, moved: list[object]) -> None:
        """Write an operation that has ended, and what it moved.  Local."""
        if self._loops.is_busy:  # a wait within an update, which is written as a whole
            return
        args: dict[str, Any] = {"call": record.what, "number": record.number, "where": record.where}
        if record.state == FAILED:
            args["failed"] = True
        traffics = [movement.traffic() for movement in moved if hasattr(movement, "traffic")]
        if traffics:
            args |= _combined(traffics)
        times = {"ts": round(record.began * 1e6, 3), "dur": round((record.ended - record.began) * 1e6, 3)}
        self._write(self._event(record.what) | times | {"args": args})

    def form(self, what: str, where: str, movement: HasTraffic) -> Form:
        """Make the form of the updates that compiled loops make by a plan; ``where``: call site of the plan.  Local."""
        args = {"call": what, "where": f"made at {where}, in a compiled loop"} | _combined([movement.traffic()])
        del args["turn"]
        return self._loops.form(self._event(what), args)

    def close(self) -> None:
        """Close the file.  Local; may be called again."""
        self._write_lost()
        self._loops.stop()
        atexit.unregister(self._write_lost)
        with suppress(OSError, ValueError):
            self._file.close()

    def _event(self, what: str) -> dict[str, Any]:
        """Make an operation's event, without times and arguments; write pending lines about the process first."""
        self._write_lost()
        if self._label() != self._named:
            self._name_process()
        match = _NAME.match(what)
        return {"name": match[0] if match else what, "cat": "operation", "ph": "X", "pid": 0, "tid": self._rank}

    def _write_lost(self) -> None:
        """Write the number of lines of compiled loops that could not be written; one may be incomplete."""
        lost = self._loops.lost
        if lost != self._lost:
            self._lost = lost
            self._write({"name": "lost", "ph": "M", "pid": 0, "tid": self._rank, "args": {"count": lost}}, "\n")

    def _name_process(self) -> None:
        """Write a line that names the process: again once it has coordinates."""
        self._named = self._label()
        clock = time.time() - time.monotonic()
        args = {"name": self._named, "size": self._size, "machine": machine(), "clock": round(clock, 6)}
        if self._offset is not None:
            args["offset"] = round(self._offset, 9)
        self._write({"name": "thread_name", "ph": "M", "pid": 0, "tid": self._rank, "args": args})

    def _write(self, event: dict[str, Any], before: str = "") -> None:
        try:
            self._file.write(f"{before}{json.dumps(event, separators=(',', ':'))},\n")
        except (OSError, ValueError) as error:
            self._loops.stop()  # a part of the line may have been written, and the rest may follow
            if not self._is_told and isinstance(error, OSError):
                self._is_told = True
                print(
                    f"spmd_grid: the trace of {self._named} on {platform.node()} is incomplete: {self._file.name!r}"
                    f" cannot be written ({error.strerror})",
                    file=sys.stderr,
                    flush=True,
                )


def _combined(traffics: list[Traffic]) -> dict[str, Any]:
    """The arguments for all movements of an operation; it waited for the processes of the first."""
    sent: dict[int, int] = {}
    for traffic in traffics:
        for process, n_bytes in traffic.sent.items():
            sent[process] = sent.get(process, 0) + n_bytes
    ways = ", ".join(dict.fromkeys(traffic.way for traffic in traffics if traffic.way))
    first = traffics[0]
    more: dict[str, Any] = {} if first.awaits is None else {"awaits": list(first.awaits)}
    if first.turn is not None:
        more["turn"] = first.turn
    return {"path": ways, "bytes": sum(sent.values()), "sent": sent, "series": first.series, **more}


def remove_files(folder: Path, keep: Container[int]) -> None:
    """Remove the files of an earlier run to which none of the processes in ``keep`` will write.  Local."""
    for path in folder.glob("rank-*.json"):
        number = path.stem.removeprefix("rank-")
        if number.isdecimal() and int(number) not in keep:
            path.unlink(missing_ok=True)


def machine() -> str:
    """A text that is equal on all processes that share a clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()
