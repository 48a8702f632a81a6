"""The rows of the programs benchmark: programs of two sizes, the cost of an operation, and the time of planning.

The programs are those of ``mpirun_examples/programs``, which stand in the source tree beside the package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from spmd_grid.grid.device_grid import Grid

__all__ = [
    "EXAMPLES",
    "OPERATIONS",
    "PLANNING",
    "PROGRAMS",
    "ProgramsCase",
    "all_cases",
    "function_of_operations",
    "grid_shape",
    "missing_examples",
    "module_of",
    "problem_of",
    "quick_cases",
    "shapes_of_operations",
]

EXAMPLES = Path(__file__).resolve().parents[3] / "mpirun_examples" / "programs"
OPERATIONS, PLANNING = "operations", "planning"
N_OPERATIONS = 50  # of `function_of_operations`
# By program, the arguments that give its sizes.
PROGRAMS: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"small": (64, 128), "large": (512, 512)},
    "attention": {"small": (48, 4), "large": (256, 4)},
    "cg": {"small": (96,), "large": (1024,)},
    "kmeans": {"small": (600, 8), "large": (200_000, 8)},
    "pencil_fft": {"small": (12,), "large": (64,)},
}
_MOST_BYTES = {"small": 1 << 20, "large": 1 << 26}


@dataclass(frozen=True)
class ProgramsCase:
    """A program of a size; `OPERATIONS` of small arrays; or `PLANNING` for a grid of some ``devices``."""

    program: str
    size: str = "small"
    devices: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        if self.program == OPERATIONS:
            return f"{N_OPERATIONS} operations on small arrays"
        if self.program == PLANNING:
            return f"planning {N_OPERATIONS} operations, {'x'.join(map(str, self.devices))} devices"
        return f"{self.program}, {self.size}"

    @property
    def family(self) -> str:
        """The name of the rows that differ only in size."""
        return self.program

    @property
    def n_bytes(self) -> int:
        """The most bytes of the global arrays."""
        return _MOST_BYTES[self.size]

    @property
    def is_program(self) -> bool:
        """Whether it is one of the examples."""
        return self.program in PROGRAMS


def all_cases() -> list[ProgramsCase]:
    programs = [ProgramsCase(program, size) for program, sizes in PROGRAMS.items() for size in sizes]
    planning = [ProgramsCase(PLANNING, devices=devices) for devices in ((2,), (1024, 1024))]
    return [*programs, ProgramsCase(OPERATIONS), *planning]


def quick_cases() -> list[ProgramsCase]:
    """The rows of the small programs, of operations and of planning."""
    return [case for case in all_cases() if case.size == "small"]


# -- programs ------------------------------------------------------------------------------------------------------


def missing_examples() -> str:
    """The reason why the programs cannot be measured, or "" if they can.  Local."""
    if EXAMPLES.is_dir():
        return ""
    return f"the programs are not there: {EXAMPLES} of the source tree; run it from a clone of the repository"


def module_of(program: str) -> Any:
    """The module of an example."""
    folder = str(EXAMPLES)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(program)


def grid_shape(program: str, ranks: int) -> tuple[int, ...]:
    """The shape of the grid that an example runs on."""
    if program != "pencil_fft":
        return (ranks,)
    shape: tuple[int, ...] = module_of(program).near_square(ranks)
    return shape


def problem_of(case: ProgramsCase, grid: Any) -> Any:
    """The ``Problem`` of a row on a grid; see ``mpirun_examples/programs/side_by_side.py``."""
    return module_of(case.program).problem(grid, *PROGRAMS[case.program][case.size])


def function_of_operations(x: Any, w: Any, y: Any) -> Any:
    """A function of 50 operations, of which one in five asks for a communication."""
    for _ in range(N_OPERATIONS // 5):
        x = x @ w
        x = np.tanh(x)
        x = x + y
        x = x - np.max(x, axis=0)
    return x


def shapes_of_operations(grid: Grid) -> Sequence[tuple[int, ...]]:
    """The shapes of the arguments of `function_of_operations`: 8 rows of 8 cells for each device."""
    n = 8 * grid.size
    return (n, 8), (8, 8), (n, 8)
