"""The public names, for type checkers; at run time each is loaded at its first use."""

from spmd_grid import array_api as array_api, fft as fft, random as random
from spmd_grid.array import (
    ShardedArray as ShardedArray,
    empty as empty,
    from_function as from_function,
    from_global as from_global,
    from_local as from_local,
    full as full,
    zeros as zeros,
)
from spmd_grid.array_api.defaults import use_sharding_defaults as use_sharding_defaults
from spmd_grid.compute.contractions.public import einsum as einsum, matmul as matmul, tensordot as tensordot
from spmd_grid.errors import *
from spmd_grid.exchange.paths import forced_path as forced_path
from spmd_grid.exchange.requests import Request as Request
from spmd_grid.grid.device_grid import Grid as Grid
from spmd_grid.grid.open import OPEN as OPEN
from spmd_grid.grid.process_grid import ProcessGrid as ProcessGrid, init_grid as init_grid
from spmd_grid.grid.sharding import Sharding as Sharding
from spmd_grid.halo.exchange import HaloExchange as HaloExchange
from spmd_grid.halo.overlap import map_overlap as map_overlap
from spmd_grid.halo.update_halo import update_halo as update_halo
from spmd_grid.links.model import LinkModel as LinkModel
from spmd_grid.ops.all_gather import all_gather as all_gather
from spmd_grid.ops.all_reduce import all_reduce as all_reduce
from spmd_grid.ops.all_slice import all_slice as all_slice
from spmd_grid.ops.all_to_all import all_to_all as all_to_all
from spmd_grid.ops.broadcast import broadcast as broadcast
from spmd_grid.ops.gather import gather as gather
from spmd_grid.ops.reduce import reduce as reduce
from spmd_grid.ops.reduce_scatter import reduce_scatter as reduce_scatter
from spmd_grid.ops.scatter import scatter as scatter
from spmd_grid.ops.send_recv import recv as recv, send as send
from spmd_grid.ops.shift import shift as shift
from spmd_grid.program.ir import ArraySpec as ArraySpec
from spmd_grid.program.manual.public import manual as manual
from spmd_grid.program.partition.public import partition as partition
from spmd_grid.program.search.autoshard import autoshard as autoshard
from spmd_grid.program.trace.public import constrain as constrain, sharding_group as sharding_group, trace as trace
from spmd_grid.reductions.extremes import max as max, min as min
from spmd_grid.reductions.sums import dot as dot, norm as norm, sum as sum
from spmd_grid.reshard.execute import reshard as reshard, run_plan as run_plan
from spmd_grid.reshard.plan import Plan as Plan, plan_reshard as plan_reshard
from spmd_grid.storage.checkpoint.load import load as load
from spmd_grid.storage.checkpoint.save import Saving as Saving, save as save
from spmd_grid.storage.checkpoint.staging import staged_bytes as staged_bytes
from spmd_grid.storage.checkpoint.verify import latest as latest, verify as verify
from spmd_grid.storage.files.hdf5_loading import load_hdf5 as load_hdf5
from spmd_grid.storage.files.hdf5_saving import save_hdf5 as save_hdf5
from spmd_grid.storage.files.npy import load_npy as load_npy, save_npy as save_npy
from spmd_grid.storage.files.vtk_saving import save_vtk as save_vtk
from spmd_grid.storage.files.zarr_loading import load_zarr as load_zarr
from spmd_grid.storage.files.zarr_saving import save_zarr as save_zarr
from spmd_grid.transport.launch import is_simulated as is_simulated, run_spmd as run_spmd

__version__: str
