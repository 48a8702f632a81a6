"""Random SPMD programs, as plain data: what all ranks do step by step, and what each of them must then hold.

A program is drawn step by step while an oracle that knows all ranks' arrays plays it: so every step is a legal one,
and what it must give is known before any rank has moved.  Arrays are numbered as they appear.  Two kinds of them live
side by side: *local* ones, of which every process has its own, and *sharded* ones, shards of a global array.  Who draws
is open: hypothesis, which shrinks what fails, or a seeded generator, which draws alike on all processes
(`scripts/soak.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from property_oracle import Oracle, coordinates, cuts
from property_strategies import BIG_EXTENTS, MEMORY, MOVED, NUMERIC, make_array

import spmd_grid as sg

__all__ = ["PATHS", "Program", "RandomDraw", "Step", "make_program"]

PATHS = ["auto", "direct", "mixed", "inline", "message", "read", "staged", "packed", "straight"]

_MOST_CELLS = 60_000  # of a group's arrays together: programs shall be many rather than large
_COLLECTIVES = [
    "all_gather", "all_reduce", "all_slice", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
    "shift",
]  # fmt: skip
_REDUCTIONS = ["sum", "max", "min", "product", "average"]
_BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]


@dataclass
class Step:
    """What all ranks do next: a method of `program_runner.Run`, the arrays it takes and gives, and its arguments."""

    does: str
    on: tuple[int, ...] = ()
    into: int | None = None
    args: dict = field(default_factory=dict)
    gives: list | None = field(default=None, repr=False)  # by process: what it must hold after the step


@dataclass
class Program:
    """Grids as (shape, ranks), the path that is forced, and steps."""

    grids: list
    path: str
    steps: list[Step]

    @property
    def n_ranks(self) -> int:
        return math.prod(self.grids[0][0])

    @property
    def n_bytes(self) -> int:
        """Of all results on all processes."""
        return sum(x.nbytes for step in self.steps for x in step.gives or () if isinstance(x, np.ndarray))

    def __str__(self) -> str:
        lines = [f"{i:4d}  {step}" for i, step in enumerate(self.steps)]
        return "\n".join([f"grids {self.grids}, path {self.path!r}", *lines])

    def _repr_pretty_(self, printer, cycle) -> None:  # as hypothesis shows it
        printer.text(f"\n{self}")


class RandomDraw:
    """Draws of a numpy generator: alike wherever the seed is."""

    def __init__(self, *seed: int):
        self._rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def flag(self) -> bool:
        return self.integer(0, 1) == 1

    def one_of(self, options):
        return options[self.integer(0, len(options) - 1)]

    def order(self, items) -> list:
        return [items[i] for i in self._rng.permutation(len(items))]


def make_program(draw, most_ranks: int, most_steps: int, paths=PATHS) -> Program:
    """A program of at most so many steps, on at most so many ranks."""
    grids = _draw_grids(draw, most_ranks)
    path = draw.one_of(paths)
    oracle = _Oracle(grids)
    for _ in range(most_steps):
        if draw.integer(0, 9):  # a step that hypothesis can leave out by making this 0
            oracle.draw_step(draw)
    oracle.finish()
    return Program(grids, path, oracle.steps)


def _draw_grids(draw, most_ranks: int) -> list:
    """One or two grids of all processes, of any shapes, perhaps in another order."""
    shape: list[int] = []
    for _ in range(draw.integer(1, 3)):
        shape.append(draw.integer(1, min(most_ranks // math.prod(shape), 6)))
    shape = draw.order(shape)
    n = math.prod(shape)
    grids = [(tuple(shape), _draw_ranks(draw, n) if draw.integer(0, 3) == 3 else None)]
    if draw.integer(0, 2) == 2:
        grids.append((draw.one_of([(n,), (1, n), tuple(reversed(shape))]), _draw_ranks(draw, n)))
    return grids


def _draw_ranks(draw, n: int) -> list:
    """Another order of the processes; one of few, since each order of a group is a communicator that is kept."""
    first = draw.integer(0, n - 1)
    ranks = [*range(first, n), *range(first)]
    return ranks[::-1] if draw.flag() else ranks


class _Local:
    """Every process's own array, or None; ``ready`` unless it is the result of something under way."""

    def __init__(self, xs, ready=True):
        self.xs, self.ready = xs, ready


class _Sharded:
    """A global array, its sharding on one of the grids, and the local arrays (None where these are nobody's business:
    of partial values it is only agreed what they combine to)."""

    def __init__(self, whole, k, sharding, local_arrays):
        self.whole, self.k, self.sharding, self.local_arrays = whole, k, sharding, local_arrays
        self.ready = True


class _Oracle:
    """Plays the steps on all ranks' arrays; the values by number, and who is under way."""

    def __init__(self, grids):
        self.grids = grids
        self.n_ranks = math.prod(grids[0][0])
        self.steps: list[Step] = []
        self.values: list = []
        self.under_way: list[tuple[int, Step]] = []  # the array that is waited for, and the step that began it

    def draw_step(self, draw) -> None:
        """Adds a step; none where what was drawn cannot be done with what there is."""
        if not self.values or draw.integer(0, 7) == 0:
            drawn = draw.one_of([self._array, self._sharded])
        else:
            drawn = draw.one_of([
                *[self._collective] * 8, self._messages, self._write, *[self._refresh] * 3, *[self._reshard] * 2,
                self._to_global, self._cores, *[self._again] * 2, self._wait,
            ])  # fmt: skip
        drawn(draw)

    def finish(self) -> None:
        """Waits for what is under way, and looks at everything once more."""
        if self.under_way:
            self._wait_for([place for place, _ in self.under_way], 0)
        for place, value in enumerate(self.values):
            if isinstance(value, _Local):
                self._add("look", (place,), gives=value.xs)
            elif value.local_arrays is not None:
                self._add("look_sharded", (place,), gives=value.local_arrays)

    def _add(self, does, on=(), args=None, gives=None, value=None) -> None:
        into = None
        if value is not None:
            into = len(self.values)
            self.values.append(value)
        self.steps.append(Step(does, on, into, args or {}, gives))

    def _pick(self, draw, kind, fits=lambda value: True) -> int | None:
        """One of the arrays that are at hand, the latest by preference."""
        found = [i for i, value in enumerate(self.values) if isinstance(value, kind) and value.ready and fits(value)]
        return draw.one_of(found[::-1][:4]) if found else None

    # -- local arrays --------------------------------------------------------------------------------------------

    def _array(self, draw) -> None:
        shape = _draw_shape(draw)
        shapes = [shape] * self.n_ranks
        if draw.integer(0, 2) == 2:
            axis = draw.integer(0, len(shape) - 1)
            shapes = [(*shape[:axis], draw.integer(0, 5), *shape[axis + 1 :]) for _ in shapes]
        args = {
            "shapes": shapes,
            "dtype": draw.one_of(NUMERIC if draw.integer(0, 2) else MOVED),
            "memory": draw.one_of(MEMORY),
            "seed": draw.integer(0, 999),
        }
        xs = [make_array(shape, args["dtype"], "C", (args["seed"], i)) for i, shape in enumerate(shapes)]
        self._add("array", args=args, gives=xs, value=_Local(xs))

    def _collective(self, draw) -> None:
        place = self._pick(draw, _Local)
        if place is None:
            return
        k, name = draw.integer(0, len(self.grids) - 1), draw.one_of(_COLLECTIVES)
        shape, _ = self.grids[k]
        axes = draw.order(range(len(shape)))
        axes = axes[: draw.integer(name == "shift", len(axes))]
        xs = self.values[place].xs
        known = next(x for x in xs if x is not None)
        args = self._draw_arguments(draw, name, shape, axes, known)
        if args is None or not self._fits(name, k, axes, xs, args):
            return
        form = draw.one_of(["call", "call", "out", "start", "plan", "plan.start"])
        args = {"name": name, "k": k, "axes": axes, "args": args, "form": form, "memory": draw.one_of(MEMORY[:-1])}
        self._operate(place, args)

    def _draw_arguments(self, draw, name, grid_shape, axes, x) -> dict | None:
        """None where the operation is not for such an array."""
        args, root = {}, [draw.integer(0, grid_shape[axis] - 1) for axis in axes]
        numeric = x.dtype.kind in "biufc"
        if name in ("all_reduce", "reduce", "reduce_scatter"):
            if not numeric:
                return None
            kinds = _REDUCTIONS + _BITWISE * (x.dtype.kind in "biu") + [first_of_two]
            args["reduction"] = draw.one_of(kinds)
            widen = draw.integer(0, 3) == 3 and args["reduction"] not in _BITWISE
            args["dtype"] = (
                (("c16" if x.dtype.kind == "c" else "f8") if x.dtype.char != "g" else "g") if widen else None
            )
        if name == "shift":
            args |= {"shift_axis": draw.one_of(axes), "offset": draw.integer(-4, 4), "rotate": draw.flag()}
            args["fill"] = draw.one_of([None, 0, 1]) if numeric else None
        takes = {
            "all_gather": ["gather_axis"], "gather": ["gather_axis"], "all_slice": ["slice_axis"],
            "scatter": ["scatter_axis"], "reduce_scatter": ["scatter_axis"],
            "all_to_all": ["split_axis", "concat_axis"],
        }.get(name, [])  # fmt: skip
        if takes and not x.ndim:
            return None
        args |= {each: draw.integer(0, x.ndim - 1) for each in takes}
        if name in ("gather", "broadcast", "scatter", "reduce"):
            args["root"] = root
        return args

    def _fits(self, name, k, axes, xs, args) -> bool:
        """Whether every group has arrays that the operation takes."""
        oracle = Oracle(self.grids[k][0], axes)
        by_device = self._by_device(k, xs)
        for group in oracle.groups:
            members = [by_device[device] for device in group]
            if name in ("broadcast", "scatter"):
                x = members[oracle._root(args["root"])]
                if x is None or x.size > _MOST_CELLS:
                    return False
                continue
            if any(x is None for x in members) or sum(x.size for x in members) > _MOST_CELLS:
                return False
            free = {"all_gather": "gather_axis", "gather": "gather_axis", "all_to_all": "concat_axis"}.get(name)
            shapes = {tuple(n for d, n in enumerate(x.shape) if free is None or d != args[free]) for x in members}
            if name not in ("all_slice", "shift") and len(shapes) > 1:
                return False
        return True

    def _operate(self, place: int, args: dict) -> None:
        shape, _ = self.grids[args["k"]]
        oracle = Oracle(shape, args["axes"])
        with np.errstate(all="ignore"):
            results = getattr(oracle, args["name"])(self._by_device(args["k"], self.values[place].xs), **args["args"])
        results = self._by_process(args["k"], results)
        started = args["form"].endswith("start")
        value = _Local(results, ready=not started) if any(x is not None for x in results) else None
        if started:
            value = value or _Local(results, ready=False)
            self._add("start", (place,), args, None, value)
            self.under_way.append((len(self.values) - 1, self.steps[-1]))
        else:
            self._add("operate", (place,), args, results, value)

    def _messages(self, draw) -> None:
        """Some messages within every group, begun before they are taken."""
        places = [self._pick(draw, _Local, lambda value: None not in map(_none, value.xs)) for _ in range(2)]
        if None in places:
            return
        k = draw.integer(0, len(self.grids) - 1)
        shape, _ = self.grids[k]
        axes = draw.order(range(len(shape)))[: draw.integer(0, len(shape))]
        n = math.prod(shape[axis] for axis in axes)
        listed = [
            (draw.one_of(places), draw.integer(0, n - 1), draw.integer(0, n - 1)) for _ in range(draw.integer(1, 5))
        ]
        oracle = Oracle(shape, axes)
        received = []
        for rank, group in enumerate(oracle.groups):
            me = group.index(rank)
            by_device = {place: self._by_device(k, self.values[place].xs) for place in places}
            received.append([by_device[place][group[source]] for place, source, to in listed if to == me])
        self._add("messages", (), {"k": k, "axes": axes, "listed": listed}, self._by_process(k, received))

    # -- sharded arrays ------------------------------------------------------------------------------------------

    def _sharded(self, draw) -> None:
        k = draw.integer(0, len(self.grids) - 1)
        shape = _draw_shape(draw)[:3]
        sharding = self._draw_sharding(draw, k, shape)
        args = {
            "how": draw.one_of(["from_global", "from_function", "from_local", "full"]),
            "shape": shape, "dtype": draw.one_of(NUMERIC if draw.integer(0, 2) else MOVED),
            "seed": draw.integer(0, 999), "k": k, "sharding": sharding,
        }  # fmt: skip
        if args["how"] == "full":
            args["dtype"] = draw.one_of(NUMERIC)
            whole = np.full(shape, 1, args["dtype"])
        else:
            whole = make_array(shape, args["dtype"], "C", args["seed"])
        self._give("sharded", (), args, whole, k, sharding)

    def _give(self, does, on, args, whole, k, sharding) -> None:
        """A step that makes a sharded array, whose halos hold what the domain has there, and zeros beyond."""
        held = (
            None if sharding.partial_axes else self._by_process(k, [_cut(whole, sharding, c) for c in self._coords(k)])
        )
        self._add(does, on, args, held, _Sharded(whole, k, sharding, held))

    def _draw_sharding(self, draw, k, shape, partial_kinds=()) -> sg.Sharding:
        grid = sg.Grid(self.grids[k][0], ranks=self.grids[k][1])
        split, partial = [[] for _ in shape], []
        for axis in draw.order(range(grid.ndim)):
            role = draw.integer(-2, len(shape) - 1)
            if role >= 0:
                split[role].append(axis)
            elif role == -2 and partial_kinds:
                partial.append(axis)
        sharded = [dim for dim, axes in enumerate(split) if axes]
        options = {}
        if draw.flag():
            options["halo_sizes"] = [draw.integer(0, 3) for _ in range(2 * len(sharded))]
        options["blocks"] = draw.one_of(["ceil", "balanced", "offsets"])
        if options["blocks"] == "offsets":
            del options["blocks"]
            options["sharded_dims_offsets"] = [
                [0, *sorted(draw.integer(0, shape[dim]) for _ in range(grid_blocks(grid, split[dim]) - 1)), shape[dim]]
                for dim in sharded
            ]
        if partial:
            options |= {"partial_axes": partial, "partial_kind": draw.one_of(partial_kinds)}
        return sg.Sharding(grid, split, **options)

    def _write(self, draw) -> None:
        place = self._pick(draw, _Sharded, _is_plain)
        if place is None:
            return
        value, seed = self.values[place], draw.integer(0, 999)
        value.whole = make_array(value.whole.shape, value.whole.dtype, "C", seed)
        held = [x.copy() for x in self._by_device(value.k, value.local_arrays)]
        for x, coords in zip(held, self._coords(value.k), strict=True):
            box = _core(value.sharding, value.whole.shape, coords)
            inside = [slice(low, low + b - a) for (a, b), (low, _) in zip(box, _halos(value), strict=True)]
            x[(..., *inside)] = value.whole[(..., *(slice(a, b) for a, b in box))]
        value.local_arrays = self._by_process(value.k, held)
        self._add("write", (place,), {"seed": seed}, value.local_arrays)

    def _refresh(self, draw) -> None:
        """New halos: by the array, by the operation, or by a plan, which is kept and used again."""
        place = self._pick(draw, _Sharded, _is_plain)
        if place is None:
            return
        value = self.values[place]
        how = draw.one_of(["method", "operation", "started", "plan", "plan", "plan.start"])
        args = {"how": how, "periodic": [draw.flag() for _ in value.whole.shape], "corners": True, "boundary": "leave"}
        if how.startswith("plan"):
            args |= {"corners": draw.integer(0, 3) > 0, "boundary": draw.one_of(["leave", "leave", "edge"])}
        self._refreshed(place, args)

    def _refreshed(self, place: int, args: dict) -> None:
        value = self.values[place]
        held = [
            _with_halos(x, value, coords, args)
            for x, coords in zip(self._by_device(value.k, value.local_arrays), self._coords(value.k), strict=True)
        ]
        value.local_arrays = self._by_process(value.k, held)
        if args["how"] == "plan.start":
            value.ready = False
            self._add("start_refresh", (place,), args)
            self.under_way.append((place, self.steps[-1]))
        else:
            self._add("refresh", (place,), args, value.local_arrays)

    def _reshard(self, draw) -> None:
        place = self._pick(draw, _Sharded)
        if place is None:
            return
        value, k = self.values[place], draw.integer(0, len(self.grids) - 1)
        kinds = []
        if value.whole.dtype.kind in "biufc" and not value.sharding.partial_axes:
            # (inf+0j) * (1+0j) is inf+nanj: complex products have no identity for infinite values
            kinds = ["sum", "max", "min"] + ["product"] * (value.whole.dtype.kind != "c")
        target = self._draw_sharding(draw, k, value.whole.shape, kinds)
        args = {
            "how": draw.one_of(["method", "function", "plan"]), "strategy": draw.one_of(["auto", "direct", "basis"]),
            "k": k, "sharding": target,
        }  # fmt: skip
        self._give("reshard", (place,), args, value.whole, k, target)

    def _to_global(self, draw) -> None:
        place = self._pick(draw, _Sharded)
        if place is None:
            return
        value = self.values[place]
        shape, ranks = self.grids[value.k]
        root = tuple(draw.integer(0, n - 1) for n in shape) if draw.flag() else None
        gives = [value.whole if root in (None, coords) else None for coords in self._coords(value.k)]
        self._add("to_global", (place,), {"root": root}, self._by_process(value.k, gives))

    def _cores(self, draw) -> None:
        """The cores of a sharded array become local arrays, which operations may take."""
        place = self._pick(draw, _Sharded, _is_plain)
        if place is None:
            return
        value = self.values[place]
        boxes = [_core(value.sharding, value.whole.shape, coords) for coords in self._coords(value.k)]
        xs = [value.whole[(..., *(slice(a, b) for a, b in box))].copy() for box in boxes]
        xs = self._by_process(value.k, xs)
        self._add("cores", (place,), {}, xs, _Local(xs))

    # -- others --------------------------------------------------------------------------------------------------

    def _again(self, draw) -> None:
        """An earlier step once more: it finds everything prepared, and what has been written since."""
        ready = [
            step
            for step in self.steps
            if step.does in ("operate", "start", "refresh", "start_refresh") and self.values[step.on[0]].ready
        ]
        if not ready:
            return
        step = draw.one_of(ready[::-1][:6])
        (self._operate if "form" in step.args else self._refreshed)(step.on[0], step.args)

    def _wait(self, draw) -> None:
        if self.under_way:
            some = draw.order([place for place, _ in self.under_way])
            self._wait_for(some[: draw.integer(1, len(some))], draw.integer(0, 2))

    def _wait_for(self, places: list[int], turn: int) -> None:
        """Ends what is under way, on every process in an order of its own."""
        gives = [[] for _ in range(self.n_ranks)]
        for place in places:
            value = self.values[place]
            value.ready = True
            for mine, x in zip(gives, value.xs if isinstance(value, _Local) else value.local_arrays, strict=True):
                mine.append(x)
        self.under_way = [(place, step) for place, step in self.under_way if place not in places]
        self._add("wait", tuple(places), {"turn": turn}, gives)
        for place in places:  # of a result that nobody has there is nothing to use
            value = self.values[place]
            value.ready = isinstance(value, _Sharded) or any(x is not None for x in value.xs)

    def _coords(self, k) -> list:
        return coordinates(self.grids[k][0])

    def _by_device(self, k, by_process) -> list:
        ranks = self.grids[k][1]
        return [by_process[rank] for rank in ranks] if ranks is not None else list(by_process)

    def _by_process(self, k, by_device) -> list:
        ranks = self.grids[k][1]
        if ranks is None:
            return list(by_device)
        found = [None] * len(by_device)
        for device, rank in enumerate(ranks):
            found[rank] = by_device[device]
        return found


def first_of_two(a, b):
    """Associative and not commutative: the order of combination shows."""
    return a


def grid_blocks(grid: sg.Grid, axes) -> int:
    return math.prod(grid.shape[axis] for axis in axes)


def _none(x):
    return None if x is None else True


def _is_plain(value: _Sharded) -> bool:
    return value.local_arrays is not None


def _draw_shape(draw) -> tuple:
    """Mostly small; now and then past the size that fits a frame, or that goes to the kernels."""
    shape = [draw.integer(0, 7) for _ in range(draw.integer(1, 3))]
    if draw.integer(0, 5) == 5:
        shape = [max(1, min(n, 3)) for n in shape[:2]]
        shape[draw.integer(0, len(shape) - 1)] = draw.one_of(BIG_EXTENTS)
    return tuple(shape)


# -- geometry by brute force -------------------------------------------------------------------------------------


def _blocks(extent, sizes, blocks, start=0) -> list:
    """(start, stop) of all blocks, in row-major order of the axes."""
    if blocks == "ceil" or not sizes:
        return [(start + a, start + b) for a, b in cuts(extent, sizes)]
    lengths = [len(part) for part in np.array_split(np.empty(extent), sizes[0])]
    starts = [start, *accumulate(lengths, initial=start)][1:]
    return [cut for a, n in zip(starts, lengths) for cut in _blocks(n, sizes[1:], blocks, a)]


def _core(sharding: sg.Sharding, shape, coords) -> list:
    """(start, stop) per dimension of the cells that a device owns."""
    box, sharded = [], [dim for dim, axes in enumerate(sharding.split_axes) if axes]
    for dim, extent in enumerate(shape):
        axes = sharding.split_axes[dim] if dim in sharded else ()
        sizes = [sharding.grid.shape[axis] for axis in axes]
        place = int(np.ravel_multi_index([coords[axis] for axis in axes], sizes)) if axes else 0
        if axes and sharding.sharded_dims_offsets:
            offsets = sharding.sharded_dims_offsets[sharded.index(dim)]
            box.append((offsets[place], offsets[place + 1]))
        else:
            box.append(_blocks(extent, sizes, sharding.blocks)[place])
    return box


def _halos_of(sharding: sg.Sharding, ndim: int) -> list:
    sharded = [dim for dim, axes in enumerate(sharding.split_axes) if axes]
    sizes = dict(zip(sharded, sharding.halo_sizes or [(0, 0)] * len(sharded)))
    return [sizes.get(dim, (0, 0)) for dim in range(ndim)]


def _halos(value: _Sharded) -> list:
    return _halos_of(value.sharding, value.whole.ndim)


def _cut(whole, sharding, coords) -> np.ndarray:
    """The local array of a device: what the domain has there, zeros beyond."""
    halos = _halos_of(sharding, whole.ndim)
    padded = np.zeros([n + low + high for n, (low, high) in zip(whole.shape, halos)], whole.dtype)
    padded[(..., *(slice(low, low + n) for n, (low, _) in zip(whole.shape, halos)))] = whole
    box = _core(sharding, whole.shape, coords)
    return padded[(..., *(slice(a, b + low + high) for (a, b), (low, high) in zip(box, halos)))].copy()


def _with_halos(local, value: _Sharded, coords, args) -> np.ndarray:
    """The local array after an update: every halo cell that some cell of the domain belongs into has it."""
    whole, core = value.whole, _core(value.sharding, value.whole.shape, coords)
    sources, beside = [], []
    for dim, ((start, stop), (low, high)) in enumerate(zip(core, _halos(value), strict=True)):
        cells, extent = np.arange(start - low, stop + high), whole.shape[dim]
        beside.append((cells < start) | (cells >= stop))
        if args["periodic"][dim]:
            cells = cells % extent if extent else np.full_like(cells, -1)
        elif args["boundary"] == "edge":
            cells = np.clip(cells, 0, extent - 1)
        else:
            cells = np.where((cells >= 0) & (cells < extent), cells, -1)
        sources.append(cells)
    result = local.copy()
    taken = [np.flatnonzero(cells >= 0) for cells in sources]
    values = whole[np.ix_(*(cells[at] for cells, at in zip(sources, taken)))]
    in_halos = sum(np.ix_(*(side[at].astype(int) for side, at in zip(beside, taken))))
    wanted = np.broadcast_to((in_halos > 0) & (args["corners"] | (in_halos == 1)), values.shape)
    region = result[np.ix_(*taken)]
    region[wanted] = values[wanted]
    result[np.ix_(*taken)] = region
    return result
