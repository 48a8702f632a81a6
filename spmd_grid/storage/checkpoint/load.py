"""Loading: a checkpoint, or parts of it, into any sharding on any number of processes; every block is verified."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array import ShardedArray
from spmd_grid.array.agreement import check_sharding
from spmd_grid.errors import DamagedError, DTypeError, ShapeError, ShardingError, StorageError
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import as_dtype, check_grid, gate_of
from spmd_grid.storage.arguments import as_path, check_bytes
from spmd_grid.storage.checkpoint.manifest import MANIFEST, Manifest, StoredArray, parse_manifest
from spmd_grid.storage.checkpoint.tree import from_tree
from spmd_grid.storage.checkpoint.verify import checkpoint_at, manifest_bytes, open_array, read_block
from spmd_grid.storage.checksums import check_library
from spmd_grid.storage.new_local import new_local
from spmd_grid.storage.paths import File
from spmd_grid.storage.ranges.move import STAGE_BYTES, take_blocks
from spmd_grid.storage.team import Team

__all__ = ["load"]

_TRIES = 3  # to open the newest checkpoint of a series, while another program may remove it

# Slices by the name of an array, and so on: a dict by names, keys joined by slashes, or nested as the state is.
ByName = Mapping[str, Any]


def load(
    path: str | os.PathLike[str],
    shardings: Mapping[str, Any],
    grid: ProcessGrid,
    *,
    names: Sequence[str] | None = None,
    slices: Mapping[str, Sequence[slice]] | None = None,
    dtypes: Mapping[str, DTypeLike] | None = None,
    stage_bytes: int = STAGE_BYTES,
) -> dict[str, Any]:
    """Load a checkpoint: the state as it was saved, its arrays in the given shardings.

    Collective over the grid.  ``path``: a checkpoint's folder, or the folder of a series, of which the newest complete
    one is loaded.  ``shardings``: a `Sharding` for every sharded array, nested as the state is, or by name, keys joined
    by slashes (``"fluid/u"``); plain arrays that are named become sharded ones.  Halo cells in the domain are filled,
    those outside are 0.  ``names``: load only these parts of the state.  ``slices``: by name, a slice per dimension,
    without steps: only that part of the array is loaded.  ``dtypes``: by name, values are converted within their kind.

    Each process reads the blocks that lie in its shard; blocks that several processes need are read by one of them.
    Every block that is read is compared with its checksum.  A process uses at most ``stage_bytes`` of memory besides
    its arrays.  Raises `DamagedError` if a file is not what was saved; `StorageError` if a system call fails or there
    is no checkpoint; and `ShardingError`, `ShapeError` or `DTypeError`, with the array's name, if an argument does not
    fit an array; the same on every process.

    >>> import tempfile, numpy as np, spmd_grid as sg
    >>> def write(path):
    ...     grid = sg.init_grid((2,))
    ...     sg.save(path, {"u": sg.from_global(np.arange(7), sg.Sharding(grid, [[0]]), grid), "step": 3})
    >>> def read(path):
    ...     grid = sg.init_grid((3,))
    ...     state = sg.load(path, {"u": sg.Sharding(grid, [[0]], halo_sizes=[1, 0])}, grid)
    ...     return state["step"], state["u"].local.tolist()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sg.run_spmd(write, folder, ranks=2)
    ...     sg.run_spmd(read, folder, ranks=3)
    [(3, [0, 0, 1, 2]), (3, [2, 3, 4, 5]), (3, [5, 6])]
    """
    check_grid("load", grid)
    check_library("load")
    check_bytes("load", "stage_bytes", stage_bytes)
    if isinstance(names, str):
        raise StorageError(f"load: names is {names!r}; it must be a list of names")
    asked = _Asked(
        _by_name("shardings", shardings),
        None if names is None else [str(name) for name in names],
        _by_name("slices", slices or {}),
        _by_name("dtypes", dtypes or {}),
    )
    for sharding in asked.shardings.values():
        check_sharding("load", sharding, grid)
    root = as_path("load", path)
    return gate_of("load", grid).run("load", _load, root, asked, grid, stage_bytes)


class _Asked:
    """The arguments of `load` that speak of arrays by name, held against a manifest."""

    def __init__(self, shardings: ByName, names: list[str] | None, slices: ByName, dtypes: ByName):
        self.shardings, self.names, self.slices, self.dtypes = shardings, names, slices, dtypes

    def keeps(self, name: str) -> bool:
        """Whether this part of the state, or something in it, is asked for."""
        if self.names is None:
            return True
        return any(_is_within(name, each) or _is_within(each, name) for each in self.names)

    def loads(self, name: str) -> bool:
        """Whether this array is asked for."""
        return self.names is None or any(_is_within(name, each) for each in self.names)

    def check(self, manifest: Manifest, parts: set[str]) -> None:
        """Refuse names that the checkpoint does not have.  Raises StorageError."""
        there = ", ".join(sorted(manifest.arrays)) or "no arrays"
        for what, found in (("shardings", self.shardings), ("slices", self.slices), ("dtypes", self.dtypes)):
            for name in found:
                if name not in manifest.arrays:
                    raise StorageError(
                        f"load: {what} names {name!r}, which the checkpoint does not hold; it has {there}"
                    )
        for name in self.names or ():
            if name not in parts:
                raise StorageError(f"load: names has {name!r}, which the checkpoint does not hold; it has {there}")

    def region(self, stored: StoredArray) -> Box:
        """The part of an array that is asked for.  Raises ShapeError."""
        slices = self.slices.get(stored.name)
        if slices is None:
            return Box.from_shape(stored.shape)
        slices = (slices,) if isinstance(slices, slice) else tuple(slices)
        if len(slices) > len(stored.shape) or not all(isinstance(each, slice) for each in slices):
            raise ShapeError(
                f"load: slices[{stored.name!r}] is {slices!r}; array {stored.name!r} has shape {stored.shape}, and each"
                " dimension takes a slice"
            )
        starts, stops = [], []
        for each, extent in zip([*slices, *[slice(None)] * (len(stored.shape) - len(slices))], stored.shape):
            start, stop, step = each.indices(extent)
            if step != 1:
                raise ShapeError(f"load: slices[{stored.name!r}] has a step of {step}; only whole ranges are loaded")
            starts.append(start)
            stops.append(max(start, stop))
        return Box(tuple(starts), tuple(stops))

    def dtype(self, stored: StoredArray) -> np.dtype:
        """The dtype that an array is to have.  Raises DTypeError."""
        wanted = as_dtype("load", self.dtypes.get(stored.name))
        if wanted is None:
            return stored.dtype
        if not np.can_cast(stored.dtype, wanted, "same_kind"):
            raise DTypeError(
                f"load: dtypes[{stored.name!r}] is {wanted}; the checkpoint holds {stored.dtype}, which does not"
                " convert to it within its kind"
            )
        return wanted


def _load(root: Path, asked: _Asked, grid: ProcessGrid, stage_bytes: int) -> dict[str, Any]:
    team = Team("load", [grid])
    for left in reversed(range(_TRIES)):
        with ExitStack() as files:
            folder, manifest = _find(root, team)
            opened: dict[str, File] = {}
            missing = False
            with team.trying():
                asked.check(manifest, _parts_of(manifest.tree))
                for stored in manifest.arrays.values():
                    if asked.loads(stored.name):
                        try:
                            opened[stored.name] = files.enter_context(open_array(team.system, "load", folder, stored))
                        except DamagedError:
                            missing = bool(left)  # another program may have removed it, and then there is a newer one
                            if not missing:
                                raise
                            break
            team.agree(f"{root}, {asked.shardings}, {asked.names}, {asked.slices}, {asked.dtypes}, {stage_bytes}")
            if team.gather(np.array([missing])).any():
                continue
            return _Loading(team, grid, asked, manifest, opened, stage_bytes).state()
    raise AssertionError("the last try loads or raises")


class _Loading:
    """A checkpoint whose files are open, being loaded."""

    def __init__(
        self,
        team: Team,
        grid: ProcessGrid,
        asked: _Asked,
        manifest: Manifest,
        opened: dict[str, File],
        stage_bytes: int,
    ):
        self._team, self._grid, self._asked, self._manifest = team, grid, asked, manifest
        self._opened, self._stage_bytes = opened, stage_bytes

    def state(self) -> dict[str, Any]:
        """The state.  Collective.  What does not fit is refused before anything is read."""
        targets = {name: self._target(self._manifest.arrays[name]) for name in self._opened}
        found: dict[str, Any] = {}
        for name, (region, target) in targets.items():
            stored = self._manifest.arrays[name]
            found[name] = self._read(stored, region, target)
        state = from_tree("load", self._manifest.tree, lambda name, is_sharded: found[name], self._keeps)
        if not isinstance(state, dict):
            raise DamagedError(f"load: the state in the manifest is a {type(state).__name__}; it must be a dict")
        return state

    def _keeps(self, name: str) -> bool:
        return self._asked.keeps(name)

    def _target(self, stored: StoredArray) -> tuple[Box, Layout | None]:
        """The part of an array to load, and its layout, None for a plain array.  Raises ShardingError."""
        region = self._asked.region(stored)
        self._asked.dtype(stored)
        sharding = self._asked.shardings.get(stored.name)
        if sharding is None:
            if stored.name in _sharded_names(self._manifest.tree):
                raise ShardingError(
                    f"load: shardings has none for {stored.name!r}, a sharded array of shape {stored.shape} and dtype"
                    f" {stored.dtype}; give one, or leave it out by names="
                )
            return region, None
        try:
            return region, Layout(sharding, region.shape)
        except ShardingError as error:
            raise ShardingError(
                f"load: the sharding of {stored.name!r} does not fit its shape {region.shape}: {error}"
            ) from None

    def _read(self, stored: StoredArray, region: Box, layout: Layout | None) -> ShardedArray | np.ndarray:
        """One array, of which every process reads a part.  Collective."""
        is_plain = layout is None
        layout = Layout(Sharding(self._grid, []), region.shape) if layout is None else layout
        local = new_local(self._team, layout, self._asked.dtype(stored), self._grid)
        array = ShardedArray(local, layout, self._grid)
        file, blocks = self._opened[stored.name], stored.blocks

        def read(block: int, cells: np.ndarray) -> None:
            read_block("load", file, stored, block, cells)

        box = region if stored.shape else None
        take_blocks(array, blocks, stored.dtype, read, self._team, self._stage_bytes, box)
        if is_plain:
            with self._team.trying():
                local = local.copy()
            self._team.agree()
            return local
        if layout.sharding.halo_sizes is not None:
            array.refresh_halos()
        return array.with_fresh_halos()


def _find(root: Path, team: Team) -> tuple[Path, Manifest]:
    """The folder and the manifest of the checkpoint at ``root``, read by the first process.  Collective."""
    folder, data = root, b""
    with team.trying():
        if team.is_first:
            for left in reversed(range(_TRIES)):
                folder = checkpoint_at(team.system, team.op, root)
                try:
                    with File.to_read(team.system, team.op, folder / MANIFEST) as file:
                        data = manifest_bytes(team.op, file)
                    break
                except DamagedError:
                    if folder == root or not left:
                        raise
    team.agree(str(root))
    folder = Path(os.fsdecode(team.tell(os.fsencode(folder))))
    data = team.tell(data)
    return folder, parse_manifest(team.op, folder / MANIFEST, data)


def _by_name(what: str, values: Any) -> dict[str, Any]:
    """A nested dict by names, keys joined by slashes.  Local.  Raises StorageError."""
    if not isinstance(values, Mapping):
        raise StorageError(f"load: {what} is {type(values).__name__}; it must be a dict by the names of arrays")
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= {f"{key}/{name}": each for name, each in _by_name(what, value).items()}
        elif isinstance(value, list | tuple) and any(isinstance(each, Sharding) for each in value):
            found |= {f"{key}/{i}": each for i, each in enumerate(value) if each is not None}
        else:
            found[str(key)] = value
    return found


def _is_within(name: str, part: str) -> bool:
    return name == part or name.startswith(part + "/")


def _parts_of(tree: Any, name: str = "") -> set[str]:
    """The names of everything in a state."""
    found = {name}
    if isinstance(tree, dict):
        ((kind, value),) = tree.items()
        entries = value.items() if kind == "dict" else enumerate(value) if kind in ("list", "tuple") else ()
        for key, each in entries:
            found |= _parts_of(each, f"{name}/{key}" if name else str(key))
    return found


def _sharded_names(tree: Any) -> set[str]:
    """The names of the sharded arrays in a state."""
    if not isinstance(tree, dict):
        return set()
    ((kind, value),) = tree.items()
    if kind == "sharded":
        return {value}
    inside = value.values() if kind == "dict" else value if kind in ("list", "tuple") else ()
    return set().union(*[_sharded_names(each) for each in inside])
