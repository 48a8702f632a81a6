"""ShardedArray: a global array of which this process holds its shard; a wrapper, not a numpy subclass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import (
    DTypeError,
    GridError,
    ImplicitGatherError,
    OutputError,
    ShapeError,
    ShardingError,
    SpmdError,
)
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid import indexing
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.calls.arguments import as_array, as_dtype, as_scalar, check_grid, gate_of, hashable
from spmd_grid.ops.calls.compare import AgreeDtype, compare_array
from spmd_grid.ops.to_global import assemble
from spmd_grid.reduction_kind import as_reduction, identity, result_dtype
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["ShardedArray", "empty", "from_function", "full", "zeros"]


class ShardedArray:
    """A global array spread over a grid: this process's local array, and the layout that gives it meaning.

    ``local`` (halos included) and ``core`` (without) are writeable numpy views; compute on them.  ``shape`` and
    ``dtype`` are those of the global array.  It is never gathered in silence: ``to_global`` does, when called.
    ``name``, which may be set at any time, is how reports call it.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    ...     a = sg.ShardedArray.from_global(np.arange(7), s, grid)
    ...     a.core[:] += 10
    ...     return a.update_halo().local.tolist(), a.to_global().tolist()
    >>> sg.run_spmd(body, ranks=3)[2]
    ([15, 16, 0], [10, 11, 12, 13, 14, 15, 16])
    """

    __slots__ = ("__weakref__", "_grid", "_layout", "_local", "_version", "name")

    def __init__(self, local: np.ndarray, layout: Layout, grid: ProcessGrid, name: str | None = None):
        self.name = name
        self._local = local
        self._layout = layout
        self._grid = grid
        self._version = 1  # counts the changes of the core that `mark_dirty` was told of

    @classmethod
    def from_global(cls, array, sharding: Sharding, grid: ProcessGrid, name: str | None = None) -> ShardedArray:
        """The shards of ``array``, which every process passes alike; copies.

        Collective over the grid (shape and dtype are compared, no data moves).  Halo cells in the domain are filled,
        those outside are 0.  Along partial axes the first device holds the value, the others the identity.
        Raises `ShardingError`, `ShapeError` and `DTypeError`, the same on every process.
        """
        return gate_of("from_global", grid).run("from_global", cls._from_global, array, sharding, grid, name)

    @classmethod
    def _from_global(cls, array, sharding: Sharding, grid: ProcessGrid, name: str | None) -> ShardedArray:
        _check_sharding("from_global", sharding, grid)
        array = compare_array.run_in_gate(array, grid, _all_axes(grid), (sharding,))
        layout = Layout(sharding, array.shape)
        result = cls._allocate("from_global", layout, array.dtype, grid, zeroed=True)
        result._fill_domain(view_of(array, layout.local_box(grid.coords).intersect(layout.domain_box)))
        result.name = name
        return result

    @classmethod
    def from_local(
        cls, local, sharding: Sharding, grid: ProcessGrid, global_shape: Sequence[int], name: str | None = None
    ) -> ShardedArray:
        """Wraps this process's local array, halos included, without a copy.

        Collective over the grid (dtypes are compared, no data moves).  Raises `ShardingError`, `ShapeError`,
        `DTypeError` and `OutputError` (not a writeable array), the same on every process.
        """
        return gate_of("from_local", grid).run("from_local", cls._from_local, local, sharding, grid, global_shape, name)

    @classmethod
    def _from_local(cls, local, sharding: Sharding, grid: ProcessGrid, global_shape, name: str | None) -> ShardedArray:
        _check_sharding("from_local", sharding, grid)
        layout = Layout(sharding, hashable(global_shape))

        def check() -> np.ndarray:
            wanted = layout.local_shape(grid.coords)
            if not isinstance(local, np.ndarray) or not local.flags.writeable:
                found = "read-only" if isinstance(local, np.ndarray) else type(local).__name__
                raise OutputError(f"from_local: local is {found}; it must be a writeable numpy array")
            if local.shape != wanted:
                raise ShapeError(
                    f"from_local: local has shape {local.shape}; the layout makes it {wanted}, halos included"
                )
            return as_array("from_local", local)

        local = _agree_dtype("from_local", check, grid, layout)
        _check_partial("from_local", sharding, local.dtype)
        return cls(local, layout, grid, name)

    @classmethod
    def _allocate(cls, op: str, layout: Layout, dtype: np.dtype, grid: ProcessGrid, zeroed: bool) -> ShardedArray:
        if dtype.hasobject:
            raise DTypeError(f"{op}: dtype {dtype} holds Python objects; only fixed-size dtypes can be moved")
        _check_partial(op, layout.sharding, dtype)
        try:
            layout.check_addressable(dtype.itemsize)
        except ShardingError as error:
            raise ShardingError(f"{op}: {error}") from None
        return cls(grid.allocate(layout.local_shape(grid.coords), dtype, zeroed), layout, grid)

    def _fill_domain(self, values) -> None:
        """Writes the cells of the domain; off the first device of partial axes, the identity instead."""
        sharding, coords = self.sharding, self._grid.coords
        inside = view_of(self._local, self._layout.in_domain_local(coords))
        if any(coords[axis] for axis in sharding.partial_axes):
            inside[...] = identity(as_reduction(sharding.partial_kind), self.dtype)
        else:
            inside[...] = values

    @property
    def local(self) -> np.ndarray:
        """This process's local array: low halo + core + high halo along every sharded dimension."""
        return self._local

    @property
    def core(self) -> np.ndarray:
        """This process's own cells, a view of ``local``."""
        return view_of(self._local, self._layout.core_in_local(self._grid.coords))

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
        """How the global array is spread."""
        return self._layout.sharding

    @property
    def layout(self) -> Layout:
        """The sharding with the global shape: where every device's cells are."""
        return self._layout

    @property
    def grid(self) -> ProcessGrid:
        """The grid the array lives on."""
        return self._grid

    @property
    def global_slices(self) -> tuple[slice, ...]:
        """Where in the global array this process's core is."""
        return self._layout.core_box(self._grid.coords).slices()

    def owner_of(self, index: Sequence[int]) -> MultiIndex:
        """The coordinates of the device whose core holds the global cell ``index``, a whole number per dimension.

        Local.  Along replicated and partial axes, where several hold it, the coordinate is 0.  Raises `ShapeError`
        for a cell outside the domain, negative indices among them.

        >>> from spmd_grid import Sharding, init_grid, run_spmd
        >>> def body():
        ...     grid = init_grid((2, 2))
        ...     return zeros((5, 4), Sharding(grid, [[1]]), grid).owner_of((3, 0))
        >>> run_spmd(body, ranks=4)[0]
        (0, 1)
        """
        return indexing.owner_of(self._layout, index)

    def local_index(self, index: Sequence[int], halos: bool = False) -> MultiIndex | None:
        """Where the global cell ``index`` lies in ``local``, or None if this process does not hold it.

        Local.  It holds the cells of its core, with ``halos`` those of its halos too.  Raises `ShapeError` as
        `owner_of`.

        >>> from spmd_grid import Sharding, init_grid, run_spmd
        >>> def body():
        ...     grid = init_grid((3,))
        ...     a = zeros((7,), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        ...     return a.local_index((3,)), a.local_index((3,), halos=True)
        >>> run_spmd(body, ranks=3)
        [(None, (4,)), ((1,), (1,)), (None, None)]
        """
        return indexing.local_index(self._layout, self._grid.coords, index, halos)

    def global_indices(self, halos: bool = False) -> tuple[np.ndarray, ...]:
        """The global indices of this process's cells, as open arrays (see ``numpy.ogrid``): one per dimension.

        Local.  Of ``core``, or with ``halos`` of all of ``local``.  Halo cells outside the domain count on: the one
        before cell 0 is -1, also where the halo update is periodic.

        >>> from spmd_grid import Sharding, init_grid, run_spmd
        >>> def body():
        ...     grid = init_grid((3,))
        ...     a = zeros((7,), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        ...     return a.global_indices()[0].tolist(), a.global_indices(halos=True)[0].tolist()
        >>> run_spmd(body, ranks=3)[0]
        ([0, 1, 2], [-1, 0, 1, 2, 3])
        """
        return indexing.index_arrays(indexing.held_box(self._layout, self._grid.coords, halos))

    def coordinates(self, origin=0.0, spacing=1.0, halos: bool = False) -> tuple[np.ndarray, ...]:
        """``origin + spacing * index`` of this process's cells, as open float arrays: one per dimension.

        Local.  ``origin`` and ``spacing`` are numbers, or lists of one per dimension; ``halos`` as in
        `global_indices`.  Raises `ShapeError`.

        >>> from spmd_grid import Sharding, init_grid, run_spmd
        >>> def body():
        ...     grid = init_grid((2,))
        ...     a = zeros((4, 3), Sharding(grid, [[0]]), grid)
        ...     x, y = a.coordinates(origin=[10, 0], spacing=0.5)
        ...     a.core[:] = x + y
        ...     return a.core.tolist()
        >>> run_spmd(body, ranks=2)[1]
        [[11.0, 11.5, 12.0], [11.5, 12.0, 12.5]]
        """
        return indexing.coordinates(indexing.held_box(self._layout, self._grid.coords, halos), origin, spacing)

    def mark_dirty(self) -> None:
        """Tells halo exchanges that are called with ``only_dirty=True`` that the core has changed since.

        Local.  Call it wherever the core has been written to; such an exchange leaves out what is not marked.
        """
        self._version += 1

    def update_halo(self, periodic=False) -> ShardedArray:
        """Refreshes the halo cells from their owners, in place; gives the array itself.

        Collective over the sharding's axes.  ``periodic``: one bool, or one per tensor dimension.
        """
        return self._grid.process.gate.run("update_halo", self._update_halo, periodic)

    def _update_halo(self, periodic) -> ShardedArray:
        recorder = self._grid.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_Method(f"update_halo(periodic={periodic})"), self, self._update_halo, periodic)
        sharding = self.sharding
        if sharding.halo_sizes is not None:
            update_halo.refresh(
                self._local,
                self._grid,
                sharding.split_axes,
                sharding.halo_sizes,
                periodic,
                self.shape,
                sharding.blocks,
                sharding.sharded_dims_offsets,
            )
        return self

    def reshard(self, target: Sharding, grid: ProcessGrid | None = None, *, out: ShardedArray | None = None, **options):
        """The same global array in another sharding: a new array, or ``out``, a sharded or a local one.

        Collective over the processes of both grids.  ``grid``: the target's, where it is not this array's; without it
        one is made.  ``options``: ``strategy``, ``memory_limit`` and ``links`` as for `plan_reshard`.  Halo cells in
        the domain are filled, those outside are 0; the halos of this array are not read.  None on a process outside
        the target's grid; one that is outside this array's grid calls `spmd_grid.reshard` with None instead.  Raises
        `ShardingError`, `ShapeError`, `DTypeError`, `OutputError` and `GridError`, the same on every process.

        >>> from spmd_grid import Sharding, init_grid, run_spmd
        >>> def body():
        ...     grid = init_grid((2,))
        ...     rows = from_function(lambda i, j: 10 * i + j, (4, 2), Sharding(grid, [[0]]), grid)
        ...     return rows.reshard(Sharding(grid, [[], [0]])).local.tolist()
        >>> run_spmd(body, ranks=2)[1]
        [[1], [11], [21], [31]]
        """
        return self._grid.process.gate.run("reshard", self._reshard, target, grid, out, options)

    def _reshard(self, target: Sharding, grid: ProcessGrid | None, out, options: dict) -> ShardedArray | None:
        if grid is None and isinstance(target, Sharding):
            grid = self._grid if target.grid == self._grid.grid else self._grid.like(target.grid, "reshard")
        recorder = self._grid.process.recorder
        if recorder is not None and recorder.is_idle:
            activity = _Method(f"reshard({self.sharding} -> {target})")
            return recorder.run(activity, self, self._reshard, target, grid, out, options)
        self._grid.check_same_program(grid, "reshard")
        _check_on_grid("reshard", target, grid)
        local = reshard_local(self._local, self.sharding, target, self._grid, self.shape, out, **options)
        if isinstance(out, ShardedArray):
            out.mark_dirty()
            return out
        return None if local is None else ShardedArray(local, Layout(target, self.shape), grid)

    def to_global(self, root=None) -> np.ndarray | None:
        """The global array, on every process; or on ``root`` (grid coordinates), and None elsewhere.

        Collective over the grid.  Partial values are combined first.  Raises `DeviceError`.
        """
        return self._grid.process.gate.run("to_global", self._gather, root)

    def _gather(self, root) -> np.ndarray | None:
        recorder = self._grid.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_Method(f"to_global(root={root})"), self, self._gather, root)
        core = self.core
        if self.sharding.partial_axes:
            reduction = self.sharding.partial_kind, None
            core = all_reduce.run_in_gate(core, self._grid, self.sharding.partial_axes, reduction)
        return assemble.run_in_gate(core, self._grid, _all_axes(self._grid), (self._layout, hashable(root)))

    def __array__(self, dtype=None, copy=None):
        raise ImplicitGatherError(
            "a ShardedArray is not a numpy array: use .local or .core for this process's cells, or .to_global() to"
            " gather all of it (collective)"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        self.__array__()

    def __repr__(self) -> str:
        return (
            f"ShardedArray(shape={self.shape}, dtype={self.dtype}, sharding={self.sharding},"
            f" local shape {self._local.shape} at {self._grid.coords})"
        )


class _Method(NamedTuple):
    """A call of a method, in words."""

    text: str

    def describe(self) -> str:
        return self.text


def empty(
    global_shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype="float64", *, name: str | None = None
) -> ShardedArray:
    """A sharded array whose cells hold anything.  Local, called by every process."""
    return _make("empty", global_shape, sharding, grid, dtype, False, name)


def zeros(
    global_shape: Sequence[int], sharding: Sharding, grid: ProcessGrid, dtype="float64", *, name: str | None = None
) -> ShardedArray:
    """A sharded array of zeros, halos included.  Local, called by every process.

    >>> from spmd_grid import Sharding, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((2, 2))
    ...     return zeros((5, 4), Sharding(grid, [[0], [1]]), grid).local.shape
    >>> run_spmd(body, ranks=4)
    [(3, 2), (3, 2), (2, 2), (2, 2)]
    """
    return _make("zeros", global_shape, sharding, grid, dtype, True, name)


def full(
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype="float64",
    *,
    fill_value,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array filled with the scalar ``fill_value``; cells of halos outside the domain are 0.

    Local, called by every process.  Raises `DTypeError` for a value that ``dtype`` cannot hold.
    """
    result = _make("full", global_shape, sharding, grid, dtype, True, name)
    value = as_scalar("full", "fill_value", fill_value, result.dtype)
    result._fill_domain(value)
    return result


def from_function(
    f: Callable,
    global_shape: Sequence[int],
    sharding: Sharding,
    grid: ProcessGrid,
    dtype=None,
    *,
    name: str | None = None,
) -> ShardedArray:
    """A sharded array of the values f(i, j, ...) at every global index.

    Collective over the grid (dtypes are compared, no data moves).  ``f`` gets one open index array per dimension, as
    ``numpy.ogrid`` makes them, and gives values that broadcast to them.  Halo cells in the domain are filled, those
    outside are 0.  Raises `ShardingError`, `ShapeError` and `DTypeError`, the same on every process.

    >>> from spmd_grid import Sharding, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((3,))
    ...     return from_function(lambda i, j: 10 * i + j, (3, 4), Sharding(grid, [[], [0]]), grid).local.tolist()
    >>> run_spmd(body, ranks=3)[1]
    [[2, 3], [12, 13], [22, 23]]
    """
    arguments = f, global_shape, sharding, grid, dtype, name
    return gate_of("from_function", grid).run("from_function", _from_function, *arguments)


def _from_function(f: Callable, global_shape, sharding: Sharding, grid: ProcessGrid, dtype, name) -> ShardedArray:
    _check_sharding("from_function", sharding, grid)
    layout = Layout(sharding, hashable(global_shape))
    wanted = as_dtype("from_function", dtype)
    inside = layout.local_box(grid.coords).intersect(layout.domain_box)

    def evaluate() -> np.ndarray:
        values = as_array("from_function", f(*np.ogrid[inside.slices()]) if layout.ndim else f())
        try:
            values = np.broadcast_to(values, inside.shape)
            return values if wanted is None else values.astype(wanted)
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"from_function: f gave dtype {values.dtype} and shape {values.shape} for index arrays that span"
                f" {inside.shape}; {error}"
            ) from None

    values = _agree_dtype("from_function", evaluate, grid, layout)
    result = ShardedArray._allocate("from_function", layout, values.dtype, grid, zeroed=True)
    result._fill_domain(values)
    result.name = name
    return result


def _make(op: str, global_shape, sharding, grid, dtype, zeroed: bool, name: str | None) -> ShardedArray:
    _check_sharding(op, sharding, grid)
    layout = Layout(sharding, hashable(global_shape))
    made = ShardedArray._allocate(op, layout, as_dtype(op, "float64" if dtype is None else dtype), grid, zeroed)
    made.name = name
    return made


def _agree_dtype(op: str, make: Callable[[], np.ndarray], grid: ProcessGrid, layout: Layout) -> np.ndarray:
    """The array that ``make`` gives on this process, once all processes have one, of one dtype.  Collective."""
    call = _AGREEMENTS[op].find_call(grid, _all_axes(grid), (layout,), thread_name=grid.process.gate.thread_name())
    array = cause = None
    try:
        array = make()
        opening = call.opening(Facts(array.shape, array.dtype))
    except SpmdError as error:
        opening = call.refusal(call.blame(error))
    except Exception as error:  # of a user's function: the others must hear of it, and this process of all of it
        cause = error
        opening = call.refusal(call.blame(ShapeError(f"{op}: {type(error).__name__}: {error}")))
    try:
        call.agree_by_itself(opening, array)
    except SpmdError as error:
        raise error from cause
    return array


def _check_partial(op: str, sharding: Sharding, dtype: np.dtype) -> None:
    """Partial values must be of a dtype that their reduction takes."""
    if sharding.partial_axes:
        try:
            result_dtype(as_reduction(sharding.partial_kind), dtype, None)
        except DTypeError as error:
            raise DTypeError(f"{op}: {error}") from None


def _check_sharding(op: str, sharding, grid) -> None:
    check_grid(op, grid)
    _check_on_grid(op, sharding, grid)


def _check_on_grid(op: str, sharding, grid) -> None:
    if not isinstance(sharding, Sharding):
        raise GridError(f"{op}: sharding is {sharding!r}; it must be a Sharding")
    if sharding.grid != grid.grid:
        raise GridError(f"{op}: the sharding is on {sharding.grid!r}, the array on {grid.grid!r}; they must be equal")


def _all_axes(grid: ProcessGrid) -> tuple[int, ...]:
    return tuple(range(grid.ndim))


_AGREEMENTS = {name: AgreeDtype(name) for name in ("from_local", "from_function")}
