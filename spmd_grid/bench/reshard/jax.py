"""JAX: ``device_put``, ``shard_map`` and ``jit`` between shardings, in a process of its own.

JAX has several CPU devices in one process only, so it cannot take turns call by call with MPI's ranks.  Instead one
process (`jax_process`) is asked, row by row, right after the others have been measured, while MPI's ranks sleep.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from spmd_grid.bench.common.launch import is_of_a_job, python_path
from spmd_grid.bench.common.mpi import wait_asleep
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.library import DeclinedError, Peer

__all__ = ["JaxPeer"]


class JaxPeer(Peer):
    """As many forced CPU devices as there are ranks."""

    name = "JAX"
    package = distribution = "jax"
    copies = 6

    def load(self) -> None:
        """Only rank 0 has to do with the process."""
        self.process = None
        if self.comm.rank == 0:
            environment = {name: value for name, value in os.environ.items() if not is_of_a_job(name)}
            environment |= {
                "PYTHONPATH": python_path(),
                "JAX_PLATFORMS": "cpu",
                "JAX_ENABLE_X64": "1",
                "XLA_FLAGS": f"--xla_force_host_platform_device_count={self.comm.size}",
            }
            words = [sys.executable, "-m", "spmd_grid.bench.reshard.jax_process"]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, text=True)
        if self._ask({}) != {"ready": True}:
            self.close()
            raise RuntimeError("its process does not start")

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
            self.process.communicate()  # there are no more questions
            self.process = None

    def _ask(self, question: dict) -> dict:
        """The process's answer, on all ranks; those that wait for it leave it their processors."""
        answer = None
        if self.process is not None:
            try:
                print(json.dumps(question), file=self.process.stdin, flush=True)
                answer = json.loads(self.process.stdout.readline() or "{}")
            except BrokenPipeError:
                answer = {}
        wait_asleep(self.comm)
        return self.comm.bcast(answer)
