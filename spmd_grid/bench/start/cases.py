"""The rows of the start benchmark: programs whose first step is timed in a fresh process."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StartCase", "all_cases", "quick_cases"]

_IMPORT_MS, _FIRST_CALL_MS = 150.0, 300.0

# On a row of two devices; the arrays are large enough for the compiled kernels.
_OPERATIONS = {
    "all_reduce": "sg.all_reduce(np.ones((256, 64)), grid, [0], 'sum')",
    "all_gather": "sg.all_gather(np.ones((256, 64)), grid, [0], 1)",
    "all_to_all": "sg.all_to_all(np.ones((256, 64)), grid, [0], 0, 1)",
    "shift": "sg.shift(np.ones((256, 64)), grid, [0], 0, 1)",
    "update_halo": "sg.update_halo(np.ones((258, 64)), grid, [[0]], [1, 1])",
    "HaloExchange": "sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), (512, 64), 'f8')"
    ".update(np.ones((258, 64)))",
    "reshard": "sg.reshard(np.ones((256, 64)), sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]]), grid,"
    " (512, 64))",
}


@dataclass(frozen=True)
class StartCase:
    """The statements to time, ``timed``, after those in ``ready``; ``most_ms``: the goal."""

    name: str
    ready: str
    timed: str
    most_ms: float | None = None

    @property
    def program(self) -> str:
        """Text of a program that prints the seconds."""
        lines = [self.ready, "import time", "began = time.perf_counter()", self.timed]
        return "\n".join([*lines, "print(time.perf_counter() - began)"])


def all_cases() -> list[StartCase]:
    imports = [
        StartCase("import numpy", "", "import numpy, numpy.random"),
        StartCase("import spmd_grid, after numpy", "import numpy, numpy.random", "import spmd_grid", _IMPORT_MS),
        StartCase("import numba", "import numpy", "import numba"),
    ]
    return imports + [_first(name, statement) for name, statement in _OPERATIONS.items()]


def quick_cases() -> list[StartCase]:
    return all_cases()[:4]


def _first(name: str, statement: str) -> StartCase:
    ready = f"import numba, numpy as np, spmd_grid as sg\ndef body():\n    grid = sg.init_grid((2,))\n    {statement}"
    return StartCase(f"first {name}, after numba", ready, "sg.run_spmd(body, ranks=2)", _FIRST_CALL_MS)
