"""Draws random programs: step by step, while the oracle plays them.

So every step is a legal one, and what it must give is known before any rank has moved.
"""

from __future__ import annotations

import math

import spmd_grid as sg
from support.programs.oracle import Local, ProgramOracle, Sharded
from support.programs.steps import PATHS, Program, Step
from support.properties.draws import draw_axes, draw_grid_shape, draw_shape, draw_sharding
from support.properties.property_oracle import Oracle
from support.properties.property_strategies import MEMORY, MOVED, NUMERIC
from support.properties.shards_oracle import halos_of

__all__ = ["make_program"]

_MOST_CELLS = 60_000  # of a group's arrays together: programs shall be many rather than large
_COLLECTIVES = [
    "all_gather", "all_reduce", "all_slice", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
    "shift",
]  # fmt: skip
_REDUCTIONS = ["sum", "max", "min", "product", "average"]
_BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
_REPEATED = ["operate", "start", "messages", "from_anybody", "refresh", "start_refresh", "overlap"]


def make_program(draw, most_ranks: int, most_steps: int, paths=PATHS) -> Program:
    """A program of at most so many steps, on at most so many ranks."""
    grids = _draw_grids(draw, most_ranks)
    path = draw.one_of(paths)
    generator = _Generator(draw, grids)
    for _ in range(most_steps):
        if draw.integer(0, 9):  # a step that hypothesis can leave out by making this 0
            generator.add_one()
    generator.finish()
    return Program(grids, path, generator.steps)


def _draw_grids(draw, most_ranks: int) -> list:
    """One or two grids of all processes, of any shapes, perhaps in another order."""
    shape = draw_grid_shape(draw, most_ranks)
    n = math.prod(shape)
    grids = [(shape, _draw_ranks(draw, n) if draw.integer(0, 3) == 3 else None)]
    if draw.integer(0, 2) == 2:
        grids.append((draw.one_of([(n,), (1, n), shape[::-1]]), _draw_ranks(draw, n)))
    return grids


def _draw_ranks(draw, n: int) -> list:
    """Another order of the processes; one of few, since each order of a group is a communicator that is kept."""
    first = draw.integer(0, n - 1)
    ranks = [*range(first, n), *range(first)]
    return ranks[::-1] if draw.flag() else ranks


def first_of_two(a, b):
    """Associative and not commutative: the order of combination shows."""
    return a


class _Generator:
    """The steps so far, and the oracle that has played them."""

    def __init__(self, draw, grids):
        self.draw, self.grids = draw, grids
        self.oracle = ProgramOracle(grids)
        self.steps: list[Step] = []

    def add_one(self) -> None:
        """Adds a step; none where what was drawn cannot be done with what there is."""
        if not self.oracle.values or self.draw.integer(0, 7) == 0:
            drawn = self.draw.one_of([self._array, self._sharded])
        else:
            drawn = self.draw.one_of([
                *[self._collective] * 8, *[self._messages] * 2, self._write, *[self._refresh] * 3,
                *[self._overlap] * 3, *[self._reshard] * 2, self._to_global, self._cores, *[self._again] * 2,
                self._wait,
            ])  # fmt: skip
        drawn()

    def finish(self) -> None:
        """Waits for what is under way, and looks at everything once more."""
        if self.oracle.under_way:
            self._add("wait", tuple(self.oracle.under_way), turn=0)
        for place, value in enumerate(self.oracle.values):
            if isinstance(value, Local):
                self._add("look", (place,))
            elif value.is_plain:
                self._add("look_sharded", (place,))

    def _add(self, does, on=(), **args) -> None:
        step = Step(does, on, args=args)
        self.oracle.play(step)
        self.steps.append(step)

    def _pick(self, kind, fits=lambda value: True) -> int | None:
        """One of the arrays that are at hand, the latest by preference."""
        values = self.oracle.values
        found = [i for i, value in enumerate(values) if isinstance(value, kind) and value.ready and fits(value)]
        return self.draw.one_of(found[::-1][:4]) if found else None

    def _pick_plain(self) -> int | None:
        return self._pick(Sharded, lambda value: value.is_plain)

    def _draw_grid(self) -> int:
        return self.draw.integer(0, len(self.grids) - 1)

    # -- local arrays --------------------------------------------------------------------------------------------

    def _array(self) -> None:
        draw, shape = self.draw, draw_shape(self.draw)
        shapes = [shape] * self.oracle.n_ranks
        if draw.integer(0, 2) == 2:
            axis = draw.integer(0, len(shape) - 1)
            shapes = [(*shape[:axis], draw.integer(0, 5), *shape[axis + 1 :]) for _ in shapes]
        dtype = draw.one_of(NUMERIC if draw.integer(0, 2) else MOVED)
        self._add("array", shapes=shapes, dtype=dtype, memory=draw.one_of(MEMORY), seed=draw.integer(0, 999))

    def _collective(self) -> None:
        place = self._pick(Local)
        if place is None:
            return
        draw, k, name = self.draw, self._draw_grid(), self.draw.one_of(_COLLECTIVES)
        shape, _ = self.grids[k]
        axes = draw_axes(draw, shape, least=int(name == "shift"))
        xs = self.oracle.values[place].xs
        args = self._draw_arguments(name, shape, axes, next(x for x in xs if x is not None))
        if args is None or not self._fits(name, k, axes, xs, args):
            return
        form = draw.one_of(["call", "call", "out", "start", "plan", "plan.start"])
        does = "start" if form.endswith("start") else "operate"
        self._add(does, (place,), name=name, k=k, axes=axes, args=args, form=form, memory=draw.one_of(MEMORY[:-1]))

    def _draw_arguments(self, name, grid_shape, axes, x) -> dict | None:
        """None where the operation is not for such an array."""
        draw, args, root = self.draw, {}, [self.draw.integer(0, grid_shape[axis] - 1) for axis in axes]
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
        by_device = self.oracle.by_device(k, xs)
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

    def _messages(self) -> None:
        """Some messages within every group: with their senders named, or all to one member, which takes anybody's."""
        places = [self._pick(Local, lambda value: all(x is not None for x in value.xs)) for _ in range(2)]
        if None in places:
            return
        draw, k = self.draw, self._draw_grid()
        shape, _ = self.grids[k]
        axes = draw_axes(draw, shape)
        last = math.prod(shape[axis] for axis in axes) - 1
        does = draw.one_of(["messages", "from_anybody"])
        to = draw.integer(0, last)
        listed = [
            (draw.integer(0, 1), draw.integer(0, last), to if does == "from_anybody" else draw.integer(0, last))
            for _ in range(draw.integer(1, 5))
        ]
        self._add(does, tuple(places), k=k, axes=axes, listed=listed, form=draw.one_of(["call", "start"]))

    # -- sharded arrays ------------------------------------------------------------------------------------------

    def _sharded(self) -> None:
        draw, k, shape = self.draw, self._draw_grid(), draw_shape(self.draw)
        how = draw.one_of(["from_global", "from_function", "from_local", "full"])
        dtype = draw.one_of(NUMERIC if draw.integer(0, 2) or how == "full" else MOVED)
        sharding = self._draw_sharding(k, shape)
        self._add("sharded", how=how, shape=shape, dtype=dtype, seed=draw.integer(0, 999), k=k, sharding=sharding)

    def _draw_sharding(self, k, shape, partial_kinds=()) -> sg.Sharding:
        return draw_sharding(self.draw, sg.Grid(self.grids[k][0], ranks=self.grids[k][1]), shape, partial_kinds)

    def _write(self) -> None:
        place = self._pick_plain()
        if place is not None:
            self._add("write", (place,), seed=self.draw.integer(0, 999))

    def _refresh(self) -> None:
        """New halos: by the array, by the operation, or by a plan, which is kept and used again."""
        place = self._pick_plain()
        if place is None:
            return
        how = self.draw.one_of(["method", "operation", "started", "plan", "plan", "plan.start"])
        options = self._draw_halo_options(self.oracle.values[place].whole.ndim)
        if not how.startswith("plan"):
            options |= {"corners": True, "boundary": "leave"}
        self._add("start_refresh" if how == "plan.start" else "refresh", (place,), how=how, **options)

    def _draw_halo_options(self, ndim) -> dict:
        draw = self.draw
        periodic, corners = [draw.flag() for _ in range(ndim)], draw.integer(0, 3) > 0
        return {"periodic": periodic, "corners": corners, "boundary": draw.one_of(["leave", "leave", "edge"])}

    def _overlap(self) -> None:
        """A stencil over one array or two, into a new one or one that is there."""
        place = self._pick_plain()
        if place is None:
            return
        draw, values, value = self.draw, self.oracle.values, self.oracle.values[place]
        fields, out = [place], None
        if draw.flag():
            fields.append(self._pick(Sharded, value.is_like))  # perhaps the same one
        if draw.flag():
            taken = [values[i] for i in fields]
            out = self._pick(Sharded, lambda other: other.is_like(value) and other not in taken)
        ndim, sharded = value.whole.ndim, value.sharding.split_axes
        radius = []
        for dim, (low, high) in enumerate(halos_of(value.sharding, ndim)):
            most = (low, high) if dim < len(sharded) and sharded[dim] else (1, 1)
            radius.append(tuple(draw.integer(0, side) for side in most))
        region = None
        if draw.flag():
            ends = [None, 1, -1, draw.integer(-4, 9)]
            region = [(draw.one_of(ends), draw.one_of(ends)) for _ in range(ndim)]
        self._add(
            "overlap", (*fields, *([] if out is None else [out])), n_fields=len(fields), radius=radius,
            offsets=[tuple(draw.integer(-low, high) for low, high in radius) for _ in range(2)], region=region,
            by_plan=draw.flag(), **self._draw_halo_options(ndim),
        )  # fmt: skip

    def _reshard(self) -> None:
        place = self._pick(Sharded)
        if place is None:
            return
        value, k = self.oracle.values[place], self._draw_grid()
        kinds = []
        if value.whole.dtype.kind in "biufc" and value.is_plain:
            # (inf+0j) * (1+0j) is inf+nanj: complex products have no identity for infinite values
            kinds = ["sum", "max", "min"] + ["product"] * (value.whole.dtype.kind != "c")
        sharding = self._draw_sharding(k, value.whole.shape, kinds)
        how, strategy = (
            self.draw.one_of(each) for each in (["method", "function", "plan"], ["auto", "direct", "basis"])
        )
        self._add("reshard", (place,), how=how, strategy=strategy, k=k, sharding=sharding)

    def _to_global(self) -> None:
        place = self._pick(Sharded)
        if place is None:
            return
        shape, _ = self.grids[self.oracle.values[place].k]
        root = tuple(self.draw.integer(0, n - 1) for n in shape) if self.draw.flag() else None
        self._add("to_global", (place,), root=root)

    def _cores(self) -> None:
        """The cores of a sharded array become local arrays, which operations may take."""
        place = self._pick_plain()
        if place is not None:
            self._add("cores", (place,))

    # -- others --------------------------------------------------------------------------------------------------

    def _again(self) -> None:
        """An earlier step once more: it finds everything prepared, and what has been written since."""
        values = self.oracle.values
        found = [step for step in self.steps if step.does in _REPEATED and all(values[i].ready for i in step.on)]
        if found:
            step = self.draw.one_of(found[::-1][:6])
            self._add(step.does, step.on, **step.args)

    def _wait(self) -> None:
        """For some of what is under way, on every process in an order of its own."""
        if self.oracle.under_way:
            some = self.draw.order(self.oracle.under_way)
            self._add("wait", tuple(some[: self.draw.integer(1, len(some))]), turn=self.draw.integer(0, 2))
