"""The rank that a launcher has given this process, known before MPI is."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["given_rank"]

_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def given_rank(environment: Mapping[str, str]) -> str | None:
    """The rank of this process as its launcher tells it; None if no launcher has started it.  Local."""
    return next((environment[name] for name in _RANKS if name in environment), None)
