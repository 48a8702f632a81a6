"""A library in a process of its own, because it cannot take turns call by call with MPI ranks.

The process measures each row right after the others, while the MPI ranks sleep.  It reads rows and writes their
figures, each as a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from spmd_grid.bench.common.launch import python_path, set_by_launcher
from spmd_grid.bench.common.mpi import wait_asleep
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary

__all__ = ["LibraryInOwnProcess", "serve"]


class LibraryInOwnProcess(PeerLibrary):
    """Subclasses set ``module``, which the process runs, and say what to ask it about a row."""

    module: str

    def environment(self) -> dict[str, str]:
        """Variables to add to the environment of the process."""
        return {}

    @abstractmethod
    def question(self, case: Any) -> dict[str, Any]:
        """The row, as arguments of the process's function."""

    def load(self) -> None:
        """Start the process, on rank 0 only."""
        self.process: subprocess.Popen[str] | None = None
        if self.comm.rank == 0:
            environment = {name: value for name, value in os.environ.items() if not set_by_launcher(name)}
            environment |= {"PYTHONPATH": python_path(), **self.environment()}
            pipe = subprocess.PIPE
            command = [sys.executable, "-m", self.module]
            self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        if self._ask({}) != {"ready": True}:
            self.close()
            raise RuntimeError("its process did not start")

    def own_figures(self, case: Any, rounds: int, at_most_seconds: float) -> dict[str, Figure]:
        answer = self._ask({**self.question(case), "rounds": rounds, "at_most_seconds": at_most_seconds})
        if "declined" in answer:
            raise DeclinedError(answer["declined"])
        if "figures" not in answer:
            raise RuntimeError(f"{self.name} in '{case.name}': {answer.get('error', 'its process has ended')}")
        return {f"{self.name} {name}, own process": Figure(*figure) for name, figure in answer["figures"].items()}

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()  # closes its input, which ends it
            self.process = None

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The process's answer, on all ranks, which wait for it without keeping a processor busy."""
        answer: dict[str, Any] | None = None
        if self.process is not None and self.process.stdout is not None:
            try:
                print(json.dumps(question), file=self.process.stdin, flush=True)
                answer = json.loads(self.process.stdout.readline() or "{}")
            except BrokenPipeError:
                answer = {}
        wait_asleep(self.comm)
        return self.comm.bcast(answer)


def serve(answer: Callable[..., Mapping[str, Any]], is_ready: Callable[[], bool]) -> None:
    """Answer questions until the input ends; what libraries print goes to stderr.  For the process."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        try:
            reply = answer(**question) if question else {"ready": is_ready()}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)
