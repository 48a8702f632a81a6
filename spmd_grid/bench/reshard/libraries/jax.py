"""JAX: ``device_put``, ``shard_map`` and ``jit`` between shardings, in a process of its own (`jax_process`).

JAX has several CPU devices only within one process.
"""

from __future__ import annotations

from typing import Any

from spmd_grid.bench.libraries.own_process import LibraryInOwnProcess
from spmd_grid.bench.reshard.cases import ReshardCase

__all__ = ["Jax"]


class Jax(LibraryInOwnProcess):
    """A forced CPU device for each rank, all in one process."""

    name = "JAX"
    package = distribution = "jax"
    copies = 6
    module = "spmd_grid.bench.reshard.libraries.jax_process"

    def environment(self) -> dict[str, str]:
        return {
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={self.comm.size}",
        }

    def question(self, case: ReshardCase) -> dict[str, Any]:
        return {"shape": case.shape, "before": case.before, "after": case.after}
