"""The program of a drill under MPI: ``drill_job.py FOLDER FAULT OPERATION...``; several operations where all go on."""

import json
import sys
import time
from pathlib import Path

import numpy as np
from support.drills import drilled

import spmd_grid as sg


def main(folder: Path, fault: str, operations: list[str]) -> None:
    grid = sg.init_grid(drilled.grid_shape(sg.init_grid((-1,)).size))
    if fault in drilled.ENDS:
        drilled.end(grid, operations[0], fault, lambda: (folder / "stamp").write_text(repr(time.time())))
        return
    if fault != "all differences":
        (folder / "stamp").write_text(repr(time.time()))
        drilled.differ(grid, operations[0], fault)
        return
    with open(folder / f"outcomes{grid.rank}", "w") as file:
        for operation in operations:
            for difference in drilled.DIFFERENCES:
                if drilled.is_recoverable(operation, difference):
                    kind, what, seconds = drilled.differ(grid, operation, difference)
                    what = [what.shape, what.ravel().tolist()] if isinstance(what, np.ndarray) else what
                    file.write(json.dumps([operation, difference, kind, what, seconds]) + "\n")


main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
