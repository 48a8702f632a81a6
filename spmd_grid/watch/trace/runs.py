"""Traces of the processes of a run, and the folder that they are written to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from spmd_grid.errors import OutputError
from spmd_grid.watch.recorder import Recorder
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.writer import TraceWriter, remove_files

__all__ = ["RunTrace", "trace_process"]

# Number of runs of this process that have been traced into a folder.
_runs: Counter[str] = Counter()


class TracedProcess(Protocol):
    """The part of a process that traces use."""

    @property
    def rank(self) -> int:
        """Its number."""

    @property
    def size(self) -> int:
        """Number of processes of the program."""

    @property
    def recorder(self) -> Recorder | None:
        """The recorder of its operations."""

    def label(self) -> str:
        """Its name in reports."""


class RunTrace:
    """The traces of ``processes``, which are simulated ranks with recorders, and the file that joins them.

    They are in ``folder``, or in its folder ``run-n`` if the process has run simulated ranks before.  Local.
    """

    def __init__(self, folder: str, processes: Sequence[TracedProcess]):
        self._folder = _folder_of_run(folder)
        with suppress(OSError):  # the first file that is made raises
            remove_files(Path(self._folder), keep=range(len(processes)))
        self._tracers = [trace_process(self._folder, process) for process in processes]

    def close(self) -> None:
        """Close the files and join them.  Local; may be called again."""
        for tracer in self._tracers:
            tracer.close()
        with suppress(OutputError):  # the program is over, and its own result counts
            read_trace(self._folder).write_joined()


def trace_process(folder: str, process: TracedProcess, offset: float | None = None) -> TraceWriter:
    """Make the recorder of ``process`` write a trace; ``offset``: see `TraceWriter`.  Local."""
    tracer = TraceWriter(folder, process.rank, process.size, process.label, offset)
    assert process.recorder is not None
    process.recorder.on_end, process.recorder.form_of = tracer.note, tracer.form
    return tracer


def _folder_of_run(folder: str) -> str:
    _runs[folder] += 1
    return folder if _runs[folder] == 1 else str(Path(folder) / f"run-{_runs[folder]}")
