"""Which processes of a run are traced, and where to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from spmd_grid.errors import OutputError
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.writer import Tracer

__all__ = ["RunTrace", "trace_process"]

# How many runs of this process have been traced into a folder.
_runs: Counter[str] = Counter()


class RunTrace:
    """The traces of ``processes``, which are simulated ranks with recorders, and the file that joins them.

    In ``folder``, or in its folder ``run-n`` where the process has run simulated ranks before.  Local.
    """

    def __init__(self, folder: str, processes: Sequence):
        self._folder = _folder_of_run(folder)
        self._tracers = [trace_process(self._folder, process) for process in processes]

    def close(self) -> None:
        """Ends the files and joins them.  Local; may be called again."""
        for tracer in self._tracers:
            tracer.close()
        with suppress(OutputError):  # the program is over, and its own result counts
            read_trace(self._folder).write_joined()


def trace_process(folder: str, process) -> Tracer:
    """Makes the recorder of ``process`` (which has a rank, a size and a label) write a trace.  Local."""
    tracer = Tracer(folder, process.rank, process.size, process.label)
    process.recorder.on_end, process.recorder.form_of = tracer.note, tracer.form
    return tracer


def _folder_of_run(folder: str) -> str:
    _runs[folder] += 1
    return folder if _runs[folder] == 1 else str(Path(folder) / f"run-{_runs[folder]}")
