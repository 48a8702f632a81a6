"""linalg: operations on whole arrays, and bodies over loops.

named   operations that have names of their own
bodies  bodies that are computed once for all loops
"""

from __future__ import annotations

from spmd_grid.dialect.execute.operations.linalg import bodies, named  # noqa: F401 - they fill the table of handlers

__all__: list[str] = []
