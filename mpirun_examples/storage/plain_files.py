"""One array in four plain files, written by all ranks, and read again in another layout.

mpiexec -n 3 python mpirun_examples/storage/plain_files.py FOLDER
"""

import sys
from pathlib import Path

import spmd_grid as sg

folder = Path(sys.argv[1])
grid = sg.init_grid((-1,))
rows = sg.Sharding(grid, [[0]], blocks="balanced")
u = sg.from_function(lambda i, j: 10.0 * i + j, (7, 6), rows, grid)

sg.save_npy(folder / "u.npy", u)
sg.save_zarr(folder / "u.zarr", {"u": u}, dimension_names=["y", "x"])
sg.save_hdf5(folder / "u.nc", {"u": u}, dimension_names=["y", "x"])
sg.save_vtk(folder / "u.pvti", u, spacing=0.5)

columns = sg.Sharding(grid, [[], [0]], halo_sizes=[1, 1])
loaded = [
    sg.load_npy(folder / "u.npy", columns, grid),
    sg.load_zarr(folder / "u.zarr", columns, grid, name="u"),
    sg.load_hdf5(folder / "u.nc", "u", columns, grid),
]
equal = all([bool((a.reshard(rows) == u).all()) for a in loaded])
print(f"rank {grid.rank} has read {loaded[0].core.shape[1]} columns of each file, equal: {equal}")
