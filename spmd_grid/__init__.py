"""spmd_grid: an MPI-backed SPMD execution engine for grids of devices.

Every process runs the same program on its shard of each array; data moves only through operations that are defined on
tensor dimensions and grid axes.  ``import spmd_grid`` loads neither MPI nor numba; of the package itself it loads what
is used, when it is used.
"""

from importlib import import_module as _import_module

from spmd_grid import errors, parts, reshard
from spmd_grid.version import __version__ as __version__

parts.offer("array_api", lambda: _import_module("spmd_grid.array_api"))  # arrays name it, and lie below it
del parts
del reshard  # the package is loaded first of all, so that its name is free for the public function

# The public names by the modules that define them; `__init__.pyi` has them for type checkers.
_PUBLIC = {
    "spmd_grid.array": ("ShardedArray", "empty", "from_function", "from_global", "from_local", "full", "zeros"),
    "spmd_grid.array_api.defaults": ("use_sharding_defaults",),
    "spmd_grid.compute.contractions.public": ("einsum", "matmul", "tensordot"),
    "spmd_grid.errors": errors.__all__,
    "spmd_grid.exchange.paths": ("forced_path",),
    "spmd_grid.exchange.requests": ("Request",),
    "spmd_grid.grid.device_grid": ("Grid",),
    "spmd_grid.grid.open": ("OPEN",),
    "spmd_grid.grid.process_grid": ("ProcessGrid", "init_grid"),
    "spmd_grid.grid.sharding": ("Sharding",),
    "spmd_grid.halo.exchange": ("HaloExchange",),
    "spmd_grid.halo.overlap": ("map_overlap",),
    "spmd_grid.halo.update_halo": ("update_halo",),
    "spmd_grid.links.model": ("LinkModel",),
    "spmd_grid.ops.all_gather": ("all_gather",),
    "spmd_grid.ops.all_reduce": ("all_reduce",),
    "spmd_grid.ops.all_slice": ("all_slice",),
    "spmd_grid.ops.all_to_all": ("all_to_all",),
    "spmd_grid.ops.broadcast": ("broadcast",),
    "spmd_grid.ops.gather": ("gather",),
    "spmd_grid.ops.reduce": ("reduce",),
    "spmd_grid.ops.reduce_scatter": ("reduce_scatter",),
    "spmd_grid.ops.scatter": ("scatter",),
    "spmd_grid.ops.send_recv": ("recv", "send"),
    "spmd_grid.ops.shift": ("shift",),
    "spmd_grid.program.ir": ("ArraySpec",),
    "spmd_grid.program.manual.public": ("manual",),
    "spmd_grid.program.partition.public": ("partition",),
    "spmd_grid.program.search.autoshard": ("autoshard",),
    "spmd_grid.program.trace.public": ("constrain", "sharding_group", "trace"),
    "spmd_grid.reductions.extremes": ("max", "min"),
    "spmd_grid.reductions.sums": ("dot", "norm", "sum"),
    "spmd_grid.reshard.execute": ("reshard", "run_plan"),
    "spmd_grid.reshard.plan": ("Plan", "plan_reshard"),
    "spmd_grid.storage.checkpoint.load": ("load",),
    "spmd_grid.storage.checkpoint.save": ("Saving", "save"),
    "spmd_grid.storage.checkpoint.staging": ("staged_bytes",),
    "spmd_grid.storage.checkpoint.verify": ("latest", "verify"),
    "spmd_grid.storage.files.hdf5_loading": ("load_hdf5",),
    "spmd_grid.storage.files.hdf5_saving": ("save_hdf5",),
    "spmd_grid.storage.files.npy": ("load_npy", "save_npy"),
    "spmd_grid.storage.files.vtk_saving": ("save_vtk",),
    "spmd_grid.storage.files.zarr_loading": ("load_zarr",),
    "spmd_grid.storage.files.zarr_saving": ("save_zarr",),
    "spmd_grid.transport.launch": ("is_simulated", "run_spmd"),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> object:
    """Load the module of a public name, or the part of the package that has this name, at its first use."""
    module = _MODULE_OF.get(name)
    if module is not None:
        found = globals()[name] = getattr(_import_module(module), name)
        return found
    if not name.startswith("_"):
        try:
            return _import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "array_api", "fft", "random"})
