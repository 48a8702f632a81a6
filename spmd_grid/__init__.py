"""spmd_grid: an MPI-backed SPMD execution engine for grids of devices.

Every process runs the same program on its shard of each array; data moves only through operations that are defined on
tensor dimensions and grid axes.  ``import spmd_grid`` loads neither MPI nor numba.
"""

from spmd_grid import array_api, random  # noqa: F401 - namespaces of their own
from spmd_grid.array import ShardedArray, empty, from_function, from_global, from_local, full, zeros
from spmd_grid.array_api.defaults import use_sharding_defaults
from spmd_grid.compute.contractions.public import einsum, matmul, tensordot
from spmd_grid.errors import (
    AxisError,
    CutOffError,
    DamagedError,
    DeadlockError,
    DeviceError,
    DTypeError,
    GridError,
    HangError,
    ImplicitGatherError,
    MismatchError,
    OutputError,
    PlanError,
    RankEndedError,
    ReductionError,
    RequestError,
    ShapeError,
    ShardingError,
    SimulationError,
    SpmdError,
    StorageError,
    TransportError,
)
from spmd_grid.exchange.paths import forced_path
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.open import OPEN
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.halo.overlap import map_overlap
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_slice import all_slice
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.gather import gather
from spmd_grid.ops.reduce import reduce
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.ops.scatter import scatter
from spmd_grid.ops.send_recv import recv, send
from spmd_grid.ops.shift import shift
from spmd_grid.program.ir import ArraySpec
from spmd_grid.program.manual.public import manual
from spmd_grid.program.partition.public import partition
from spmd_grid.program.search.autoshard import autoshard
from spmd_grid.program.trace.public import constrain, sharding_group, trace
from spmd_grid.reductions.extremes import max, min
from spmd_grid.reductions.sums import dot, norm, sum
from spmd_grid.reshard.execute import reshard, run_plan
from spmd_grid.reshard.plan import Plan, plan_reshard
from spmd_grid.reshard.planner.cost import LinkModel
from spmd_grid.storage.checkpoint.load import load
from spmd_grid.storage.checkpoint.save import Saving, save
from spmd_grid.storage.checkpoint.verify import latest, verify
from spmd_grid.storage.files.hdf5_loading import load_hdf5
from spmd_grid.storage.files.hdf5_saving import save_hdf5
from spmd_grid.storage.files.npy import load_npy, save_npy
from spmd_grid.storage.files.vtk_saving import save_vtk
from spmd_grid.storage.files.zarr_loading import load_zarr
from spmd_grid.storage.files.zarr_saving import save_zarr
from spmd_grid.transport.launch import is_simulated, run_spmd

__version__ = "0.1.0"

__all__ = [
    "trace",
    "sharding_group",
    "partition",
    "constrain",
    "OPEN",
    "ArraySpec",
    "autoshard",
    "AxisError",
    "DTypeError",
    "CutOffError",
    "DamagedError",
    "DeadlockError",
    "DeviceError",
    "Grid",
    "GridError",
    "HangError",
    "HaloExchange",
    "ImplicitGatherError",
    "LinkModel",
    "MismatchError",
    "OutputError",
    "Plan",
    "PlanError",
    "ProcessGrid",
    "RankEndedError",
    "ReductionError",
    "Request",
    "RequestError",
    "ShapeError",
    "ShardedArray",
    "Sharding",
    "ShardingError",
    "SimulationError",
    "SpmdError",
    "StorageError",
    "TransportError",
    "all_gather",
    "all_reduce",
    "all_slice",
    "all_to_all",
    "broadcast",
    "dot",
    "einsum",
    "empty",
    "forced_path",
    "from_function",
    "from_global",
    "from_local",
    "full",
    "gather",
    "init_grid",
    "is_simulated",
    "load_hdf5",
    "load_zarr",
    "latest",
    "load",
    "load_npy",
    "manual",
    "map_overlap",
    "matmul",
    "max",
    "min",
    "norm",
    "plan_reshard",
    "recv",
    "reduce",
    "reduce_scatter",
    "reshard",
    "run_plan",
    "run_spmd",
    "save_hdf5",
    "save_vtk",
    "save_zarr",
    "Saving",
    "save",
    "save_npy",
    "scatter",
    "send",
    "shift",
    "sum",
    "tensordot",
    "update_halo",
    "use_sharding_defaults",
    "verify",
    "zeros",
]
