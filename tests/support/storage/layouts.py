"""Layouts of arrays that are written to files and read again, and the folder that all ranks of a test share."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

import spmd_grid as sg
from support.sharded_arrays import refused


class Cut(NamedTuple):
    """An array's shape, and how a grid cuts it."""

    grid: tuple
    shape: tuple
    split_axes: list
    options: dict = {}

    @property
    def ranks(self):
        return int(np.prod(self.grid))


CUTS = {
    "rows": Cut((2,), (8, 5), [[0]]),
    "uneven rows": Cut((3,), (7, 5), [[0]], {"blocks": "balanced"}),
    "empty blocks": Cut((4,), (5, 3), [[0]]),
    "both, halos": Cut((2, 3), (7, 11), [[0], [1]], {"halo_sizes": [1, 2, 2, 1]}),
    "swapped": Cut((2, 3), (7, 11), [[1], [0]]),
    "one dimension by two axes": Cut((2, 2), (9, 4), [[], [1, 0]]),
    "offsets": Cut((3,), (9, 2), [[0]], {"sharded_dims_offsets": [0, 5, 6, 9]}),
    "replicated": Cut((2, 2), (4, 6), [[0]]),
    "partial": Cut((2, 2), (4, 6), [[0]], {"partial_axes": [1], "partial_kind": "max"}),
    "three dimensions": Cut((2, 2), (3, 5, 4), [[0], [], [1]]),
    "no cells": Cut((2,), (0, 3), [[0]]),
    "no dimensions": Cut((2,), (), []),
}


def cells(shape, dtype="float64"):
    """Cells of all kinds, of which no two neighbours are equal."""
    numbers = (np.arange(np.prod(shape, dtype=int)) * 7 % 101 - 30).reshape(shape)
    if np.dtype(dtype).kind == "b":
        return numbers % 3 == 0
    return (numbers * (0.25 if np.dtype(dtype).kind in "fc" else 1)).astype(dtype)


def cut(case, whole):
    """``whole`` in the layout of a case."""
    of = CUTS[case]
    grid = sg.init_grid(of.grid)
    return sg.from_global(whole, sg.Sharding(grid, of.split_axes, **of.options), grid)


def shared_folder(tmp_path):
    """The temporary folder of the first rank, on all ranks: under MPI every process has one of its own."""
    grid = sg.init_grid((-1,))
    text = str(tmp_path).encode().ljust(512)
    found = sg.broadcast(np.frombuffer(text, np.uint8).copy(), grid, [0], root=(0,))
    return Path(bytes(found).decode().rstrip())


def refusal_in_folder(spmd, tmp_path, call):
    """(the text of the error that ``call(array, folder)`` raises on all of four ranks, the names in the folder)."""
    folder = []

    def make(grid):
        folder.append(shared_folder(tmp_path))
        call(sg.from_global(cells((4, 6)), sg.Sharding(grid, [[0], [1]]), grid), folder[-1])

    _, text = refused(spmd, make)
    return text, [each.name for path in folder[-1:] for each in path.iterdir()]  # none on processes beyond the four
