"""The objects that random calls work with: a grid, arrays of several layouts, a halo plan, files in a folder."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import spmd_grid as sg

SHAPE = (7, 5)


class World:
    """The objects of one process.  Collective: every process makes one of the same folder."""

    def __init__(self, folder: Path, number: int):
        self.folder = folder
        self.grid = grid = sg.init_grid((-1,), axis_names=("x",))
        rows = sg.Sharding(grid, [[0]])
        columns = sg.Sharding(grid, [[], [0]])
        halo = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        whole = sg.Sharding(grid, [[], []])
        self.shardings = [rows, columns, halo, whole, sg.Sharding(grid, [[0]], blocks="balanced")]
        cells = np.arange(35.0).reshape(SHAPE)
        self.arrays: dict[str, sg.ShardedArray] = {
            "rows": sg.from_global(cells, rows, grid),
            "columns": sg.from_global(cells + 1, columns, grid),
            "halo": sg.from_global(cells - 3, halo, grid),
            "whole": sg.from_global(cells.astype("i4"), whole, grid),
            "partial": sg.from_global(cells, sg.Sharding(grid, [[], []], partial_axes=[0]), grid),
            "line": sg.from_global(np.arange(5.0), sg.Sharding(grid, [[0]]), grid),
            "numbers": sg.from_global(np.arange(3), sg.Sharding(grid, [[0]]), grid),
            "mask": sg.from_global(cells > 11, rows, grid),
            "dates": sg.from_global(cells.astype("i8").view("M8[s]"), rows, grid),
            "complex": sg.from_global(cells + 1j, rows, grid),
            "point": sg.from_global(np.array(2.5), sg.Sharding(grid, []), grid),
            "empty": sg.zeros((0, 5), rows, grid),
        }
        self.exchange = sg.HaloExchange(grid, halo, SHAPE, "f8")
        self.plan = sg.plan_reshard(rows, columns, SHAPE, "f8")
        self.random = sg.random.Generator(3)
        self.written = folder / f"made{number}"
        sg.save_npy(self.written.with_suffix(".npy"), self.arrays["rows"])
        sg.save_zarr(self.written.with_suffix(".zarr"), self.arrays["rows"])
        sg.save(self.written, {"u": self.arrays["rows"], "n": 1})
        self._n_paths = 0

    def path(self, r: Random) -> Any:
        """A path in the folder: of a file that is there, or of none."""
        self._n_paths += 1
        new = self.written.with_name(f"{self.written.name}_{self._n_paths}")
        made = [self.written, self.written.with_suffix(".npy"), self.written.with_suffix(".zarr"), self.folder]
        return r.choice([new, str(new), new.with_suffix(".npy"), new.with_suffix(".pvti"), str(self.written), *made])

    def cells(self) -> list[bytes]:
        """The cells of this process's arrays, halos included."""
        return [each._local.tobytes() for each in self.arrays.values()]

    def cores(self, out: Any) -> list[bytes]:
        """The cells of this process's arrays without halos and without those of ``out``."""
        return [each.core.tobytes() for each in self.arrays.values() if each is not out]

    def files(self) -> set[str]:
        """The names of all files in the folder."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def close(self) -> None:
        """Give the plan back."""
        self.exchange.close()
