"""Other libraries that reshard, adapted to the benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.bench.libraries.library import PeerLibrary
from spmd_grid.bench.reshard.libraries.dtensor import DTensor
from spmd_grid.bench.reshard.libraries.heat import Heat
from spmd_grid.bench.reshard.libraries.jax import Jax
from spmd_grid.bench.reshard.libraries.mpi4py_fft import Mpi4pyFft

__all__ = ["RESHARD_LIBRARY_TYPES"]

RESHARD_LIBRARY_TYPES: Sequence[type[PeerLibrary]] = (Mpi4pyFft, Heat, DTensor, Jax)  # as `rows.RESHARD_LIBRARIES`
