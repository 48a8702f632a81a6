"""JAX: ``device_put``, ``shard_map`` and ``jit`` between shardings, in a separate process.

JAX has several CPU devices only within one process, so it cannot take turns call by call with MPI ranks.  Instead a
process (`jax_process`) measures each row right after the others, while the MPI ranks sleep.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from spmd_grid.bench.common.launch import python_path, set_by_launcher
from spmd_grid.bench.common.mpi import wait_asleep
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.libraries.library import DeclinedError, Library

__all__ = ["Jax"]


class Jax(Library):
    """A forced CPU device for each rank, all in one process."""

    name = "JAX"
    package = distribution = "jax"
    copies = 6

    def load(self) -> None:
        """Start the process, on rank 0 only."""
        self.process: subprocess.Popen[str] | None = None
        if self.comm.rank == 0:
            environment = {name: value for name, value in os.environ.items() if not set_by_launcher(name)}
            environment |= {
                "PYTHONPATH": python_path(),
                "JAX_PLATFORMS": "cpu",
                "JAX_ENABLE_X64": "1",
                "XLA_FLAGS": f"--xla_force_host_platform_device_count={self.comm.size}",
            }
            command = [sys.executable, "-m", "spmd_grid.bench.reshard.libraries.jax_process"]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        if self._ask({}) != {"ready": True}:
            self.close()
            raise RuntimeError("its process did not start")

    def own_figures(self, case: ReshardCase, rounds: int, at_most_seconds: float) -> dict[str, Figure]:
        answer = self._ask(
            {"shape": case.shape, "before": case.before, "after": case.after}
            | {"rounds": rounds, "at_most_seconds": at_most_seconds}
        )
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
