"""ShardedArray: a global array of which this process holds its shard; a wrapper, not a numpy subclass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.array.agreement import agree_dtype, all_axes, check_on_grid, check_sharding, compared_array
from spmd_grid.array.local_arrays import allocate_local, check_local, fill_domain
from spmd_grid.compute.protocol import ComputingArray
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid import indexing
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo import kept_updates
from spmd_grid.halo.geometry.boundary import as_periodic
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.links.model import LinkModel
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.calls.arguments import gate_of, hashable
from spmd_grid.ops.to_global import assemble
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["ShardedArray"]


class ShardedArray(ComputingArray):
    """A global array spread over a grid: this process's local array, and the layout that gives it meaning.

    ``local`` (halos included) and ``core`` (without) are writeable numpy views; compute on them, and call `mark_dirty`
    after writing to them.  ``shape`` and ``dtype`` are those of the global array.  Only ``to_global`` gathers it;
    nothing does so implicitly.  ``name`` is for reports, and may be set at any time.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    ...     a = sg.from_global(np.arange(7), s, grid)
    ...     a.core[:] += 10
    ...     return a.update_halo().local.tolist(), a.to_global().tolist()
    >>> sg.run_spmd(body, ranks=3)[2]
    ([15, 16, 0], [10, 11, 12, 13, 14, 15, 16])
    """

    __slots__ = ("name",)

    def __init__(self, local: np.ndarray, layout: Layout, grid: ProcessGrid, name: str | None = None) -> None:
        self.name = name
        self._hold(local, layout, grid)

    @classmethod
    def from_global(
        cls, array: ArrayLike, sharding: Sharding, grid: ProcessGrid, name: str | None = None
    ) -> ShardedArray:
        """A sharded array with the values of ``array``, as `spmd_grid.from_global` makes it.

        Collective over the grid (shape and dtype are compared, no data moves).
        """
        return gate_of("from_global", grid).run("from_global", cls._from_global, array, sharding, grid, name)

    @classmethod
    def _from_global(cls, array: ArrayLike, sharding: Sharding, grid: ProcessGrid, name: str | None) -> ShardedArray:
        check_sharding("from_global", sharding, grid)
        compared = compared_array(array, sharding, grid)
        layout, coords = Layout(sharding, compared.shape), grid.own_coords
        local = allocate_local("from_global", layout, compared.dtype, grid, zeroed=True)
        inside = layout.local_box(coords).intersect(layout.domain_box)
        fill_domain(local, layout, coords, view_of(compared, inside))
        return cls(local, layout, grid, name).with_fresh_halos()

    @classmethod
    def from_local(
        cls,
        local: np.ndarray,
        sharding: Sharding,
        grid: ProcessGrid,
        global_shape: Sequence[int],
        name: str | None = None,
    ) -> ShardedArray:
        """A sharded array around this process's ``local`` array, as `spmd_grid.from_local` makes it.

        Collective over the grid (dtypes are compared, no data moves).
        """
        return gate_of("from_local", grid).run("from_local", cls._from_local, local, sharding, grid, global_shape, name)

    @classmethod
    def _from_local(
        cls,
        local: np.ndarray,
        sharding: Sharding,
        grid: ProcessGrid,
        global_shape: Sequence[int],
        name: str | None,
    ) -> ShardedArray:
        check_sharding("from_local", sharding, grid)
        layout = Layout(sharding, hashable(global_shape))
        check = partial(check_local, "from_local", local, layout, grid)
        checked = agree_dtype("from_local", check, grid, layout)
        sharding.check_dtype("from_local", checked.dtype)
        result = cls(checked, layout, grid, name)
        result._was_seen = True
        return result

    @property
    def local(self) -> np.ndarray:
        """This process's local array: low halo + core + high halo along every sharded dimension.

        A program that writes to it calls `mark_dirty` afterwards, on every process.
        """
        return self._seen_by_program()

    @property
    def core(self) -> np.ndarray:
        """This process's own cells, a view of ``local``.

        A program that writes to it calls `mark_dirty` afterwards, on every process.
        """
        return self._seen_by_program()[self._layout.core_key(self._coords)]

    @property
    def shape(self) -> Shape:
        """Shape of the global array."""
        return self._layout.global_shape

    @property
    def ndim(self) -> int:
        """Number of tensor dimensions."""
        return len(self._layout.global_shape)

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        return self._local.dtype

    @property
    def sharding(self) -> Sharding:
        """The sharding: the grid axes that split each dimension."""
        return self._layout.sharding

    @property
    def layout(self) -> Layout:
        """The sharding and the global shape: the cells of every device."""
        return self._layout

    @property
    def grid(self) -> ProcessGrid:
        """The grid the array lives on."""
        return self._grid

    @property
    def global_slices(self) -> tuple[slice, ...]:
        """Slices of the global array that select this process's core."""
        return self._layout.core_box(self._coords).slices()

    def owner_of(self, index: Sequence[int]) -> MultiIndex:
        """The coordinates of the device whose core holds the global cell ``index``, a whole number per dimension.

        Local.  Along replicated and partial axes, where several devices hold it, the coordinate is 0.  Raises
        `ShapeError` for a cell outside the domain, and for negative indices.

        >>> from spmd_grid import Sharding, init_grid, run_spmd, zeros
        >>> def body():
        ...     grid = init_grid((2, 2))
        ...     return zeros((5, 4), Sharding(grid, [[1]]), grid).owner_of((3, 0))
        >>> run_spmd(body, ranks=4)[0]
        (0, 1)
        """
        return indexing.owner_of(self._layout, index)

    def local_index(self, index: Sequence[int], halos: bool = False) -> MultiIndex | None:
        """Index of the global cell ``index`` in ``local``, or None if this process does not hold it.

        Local.  A process holds the cells of its core, with ``halos`` those of its halos too.  Raises `ShapeError` as
        `owner_of`.

        >>> from spmd_grid import Sharding, init_grid, run_spmd, zeros
        >>> def body():
        ...     grid = init_grid((3,))
        ...     a = zeros((7,), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        ...     return a.local_index((3,)), a.local_index((3,), halos=True)
        >>> run_spmd(body, ranks=3)
        [(None, (4,)), ((1,), (1,)), (None, None)]
        """
        return indexing.local_index(self._layout, self._coords, index, halos)

    def global_indices(self, halos: bool = False) -> tuple[np.ndarray, ...]:
        """The global indices of this process's cells, as open arrays (see ``numpy.ogrid``): one per dimension.

        Local.  Those of ``core``, or with ``halos`` of all of ``local``.  Indices of halo cells outside the domain
        continue beyond it: the one before cell 0 is -1, also where the halo update is periodic.

        >>> from spmd_grid import Sharding, init_grid, run_spmd, zeros
        >>> def body():
        ...     grid = init_grid((3,))
        ...     a = zeros((7,), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        ...     return a.global_indices()[0].tolist(), a.global_indices(halos=True)[0].tolist()
        >>> run_spmd(body, ranks=3)[0]
        ([0, 1, 2], [-1, 0, 1, 2, 3])
        """
        return indexing.index_arrays(indexing.held_box(self._layout, self._coords, halos))

    def coordinates(
        self, origin: float | Sequence[float] = 0.0, spacing: float | Sequence[float] = 1.0, halos: bool = False
    ) -> tuple[np.ndarray, ...]:
        """``origin + spacing * index`` of this process's cells, as open float arrays: one per dimension.

        Local.  ``origin`` and ``spacing`` are numbers, or lists of one per dimension; ``halos`` as in
        `global_indices`.  Raises `ShapeError`.

        >>> from spmd_grid import Sharding, init_grid, run_spmd, zeros
        >>> def body():
        ...     grid = init_grid((2,))
        ...     a = zeros((4, 3), Sharding(grid, [[0]]), grid)
        ...     x, y = a.coordinates(origin=[10, 0], spacing=0.5)
        ...     a.core[:] = x + y
        ...     return a.core.tolist()
        >>> run_spmd(body, ranks=2)[1]
        [[11.0, 11.5, 12.0], [11.5, 12.0, 12.5]]
        """
        return indexing.coordinates(indexing.held_box(self._layout, self._coords, halos), origin, spacing)

    def update_halo(self, periodic: bool | Sequence[bool] = False) -> ShardedArray:
        """Copy the halo cells from their owners, in place; returns the array itself.

        Collective over the sharding's axes.  ``periodic``: one bool, or one per tensor dimension.  Afterwards the halos
        are fresh, and shifted slices read them without a message: see `mark_dirty`.
        """
        return self._grid.process.gate.run("update_halo", self._update_halo, periodic)

    def refresh_halos(self) -> None:
        """As `update_halo`, as a part of an operation that has gone through the gate.  Collective."""
        if self._grid.process.recorder is None:
            plan = kept_updates.refresh(self.stored_to_write(), self._grid, self._layout)
            self._refresh = None if self._was_seen or self._notes else plan
            self.with_fresh_halos()
        else:
            self._update_halo(False)

    def _update_halo(self, periodic: bool | Sequence[bool]) -> ShardedArray:
        recorder = self._grid.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_MethodCall(f"update_halo(periodic={periodic})"), self, self._update_halo, periodic)
        if self.sharding.halo_sizes is not None:
            update_halo.refresh(self.stored_to_write(), self._grid, self._layout, periodic)
        else:
            as_periodic(periodic, self.ndim)
        return self.with_fresh_halos()

    def reshard(
        self,
        target: Sharding,
        grid: ProcessGrid | None = None,
        *,
        out: ShardedArray | np.ndarray | None = None,
        strategy: str = "auto",
        memory_limit: int | None = None,
        links: LinkModel | None = None,
    ) -> ShardedArray | None:
        """The same global array in another sharding: a new array, or ``out``, a sharded or a local array.

        Collective over the processes of both grids.  ``grid`` is that of the target; if it is not given, this array's
        grid is used where the target is on it, else one is made.  ``strategy``, ``memory_limit`` and ``links`` are
        those of `plan_reshard`.  Halo cells in the domain are filled, those outside are 0; the halos of this array are
        not read.  None on a process outside the target's grid; a process outside this array's grid calls
        `spmd_grid.reshard` with None instead.  Raises `ShardingError`, `ShapeError`, `DTypeError`, `OutputError` and
        `GridError`, the same on every process.

        >>> from spmd_grid import Sharding, from_function, init_grid, run_spmd
        >>> def body():
        ...     grid = init_grid((2,))
        ...     rows = from_function(lambda i, j: 10 * i + j, (4, 2), Sharding(grid, [[0]]), grid)
        ...     return rows.reshard(Sharding(grid, [[], [0]])).local.tolist()
        >>> run_spmd(body, ranks=2)[1]
        [[1], [11], [21], [31]]
        """
        return self._grid.process.gate.run("reshard", self._reshard, target, grid, out, strategy, memory_limit, links)

    def _reshard(
        self,
        target: Sharding,
        grid: ProcessGrid | None,
        out: ShardedArray | np.ndarray | None,
        strategy: str,
        memory_limit: int | None,
        links: LinkModel | None,
    ) -> ShardedArray | None:
        if grid is None:
            is_here = not isinstance(target, Sharding) or target.grid == self._grid.grid
            grid = self._grid if is_here else self._grid.like(target.grid, "reshard")
        recorder = self._grid.process.recorder
        if recorder is not None and recorder.is_idle:
            activity = _MethodCall(f"reshard({self.sharding} -> {target})")
            return recorder.run(activity, self, self._reshard, target, grid, out, strategy, memory_limit, links)
        target_grid = self._grid.check_same_program(grid, "reshard")
        check_on_grid("reshard", target, target_grid)
        options = strategy, memory_limit, links
        held = self.stored, self.sharding, target, self._grid, self.shape
        local = reshard_local(*held, out, *options)
        if isinstance(out, ShardedArray):
            out.mark_dirty()
            return out.with_fresh_halos()
        if local is None:
            return None
        result = ShardedArray(local, Layout(target, self.shape), target_grid)
        result._was_seen = out is not None
        return result.with_fresh_halos()

    def to_global(self, root: Sequence[int] | None = None) -> np.ndarray | None:
        """The global array, on every process; or on ``root`` (grid coordinates), and None elsewhere.

        Collective over the grid.  Partial values are combined first.  Raises `DeviceError`.
        """
        return self._grid.process.gate.run("to_global", self._gather, root)

    def _gather(self, root: Sequence[int] | None) -> np.ndarray | None:
        recorder = self._grid.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_MethodCall(f"to_global(root={root})"), self, self._gather, root)
        core = self.stored_core
        if self.sharding.partial_axes:
            reduction = self.sharding.partial_kind, None
            core = all_reduce.run_in_gate(core, self._grid, self.sharding.partial_axes, reduction)
        return assemble.run_in_gate(core, self._grid, all_axes(self._grid), (self._layout, hashable(root)))

    def __repr__(self) -> str:
        return (
            f"ShardedArray(shape={self.shape}, dtype={self.dtype}, sharding={self.sharding},"
            f" local shape {self._local.shape} at {self._coords})"
        )

    def _repr_html_(self) -> str:
        """The array with a picture of who holds what, for notebooks.  Local."""
        return import_module("spmd_grid.viz.html").array_html(self._layout, repr(self))  # few programs draw


class _MethodCall(NamedTuple):
    """A call of a method, as reports describe it."""

    text: str

    def describe(self) -> str:
        return self.text
