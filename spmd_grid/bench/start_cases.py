"""The rows of the start benchmark: what a fresh process does first, as programs that say how long it took."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StartCase", "all_cases", "quick_cases"]

_IMPORT_MS, _FIRST_CALL_MS = 150.0, 300.0

_OPERATIONS = {
    "all_reduce": "sg.all_reduce(np.ones((8, 6)), grid, [0], 'sum')",
    "all_gather": "sg.all_gather(np.ones((8, 6)), grid, [0], 1)",
    "all_to_all": "sg.all_to_all(np.ones((8, 6)), grid, [0], 0, 1)",
    "shift": "sg.shift(np.ones((8, 6)), grid, [0], 0, 1)",
    "update_halo": "sg.update_halo(np.ones((8, 6)), grid, [[0]], [1, 1])",
    "HaloExchange": "sg.HaloExchange(grid, rows_with_halos, (16, 6), 'f8').update(np.ones((10, 6)))",
    "reshard": "sg.reshard(np.ones((8, 6)), sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]]), grid, (16, 6))",
}


@dataclass(frozen=True)
class StartCase:
    """``timed`` after ``ready``, both as statements; ``most_ms``: the goal."""

    name: str
    ready: str
    timed: str
    most_ms: float | None = None

    @property
    def program(self) -> str:
        """Prints the seconds."""
        lines = [self.ready, "import time", "began = time.perf_counter()", self.timed]
        return "\n".join([*lines, "print(time.perf_counter() - began)"])


def all_cases() -> list[StartCase]:
    imports = [
        StartCase("import numpy", "", "import numpy, numpy.random"),
        StartCase("import spmd_grid, after numpy", "import numpy, numpy.random", "import spmd_grid", _IMPORT_MS),
        StartCase("import numba", "import numpy", "import numba"),
    ]
    return imports + [_first(name, words) for name, words in _OPERATIONS.items()]


def quick_cases() -> list[StartCase]:
    return all_cases()[:4]


def _first(name: str, words: str) -> StartCase:
    ready = "import numba, numpy as np, spmd_grid as sg"
    body = ["def body():", "    grid = sg.init_grid((-1,))"]
    if "rows_with_halos" in words:
        body.append("    rows_with_halos = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])")
    body.append(f"    {words}")
    return StartCase(
        f"first {name}, after numba", "\n".join([ready, *body]), "sg.run_spmd(body, ranks=2)", _FIRST_CALL_MS
    )
