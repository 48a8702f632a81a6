"""Plays a drawn program on one rank, and compares with the oracle after every step."""

from __future__ import annotations

import numpy as np

import spmd_grid as sg
from support.programs.steps import Program, Step
from support.properties.property_oracle import assert_merged, assert_same
from support.properties.property_strategies import in_memory, make_array
from support.properties.shards_oracle import shifted_sum

__all__ = ["play"]


def play(program: Program) -> None:
    """All steps on this rank.  Collective over ``program.n_ranks`` processes."""
    run = Run(program)
    for i, step in enumerate(program.steps):
        try:
            getattr(run, step.does)(step)
        except BaseException as error:
            error.add_note(f"on rank {run.rank} in step {i}: {step}")
            raise
    run.close()


class Run:
    """This rank's arrays, by number; the plans it has made, by what they are for; and what it has begun."""

    def __init__(self, program: Program):
        self.grids = [sg.init_grid(shape, ranks=ranks) for shape, ranks in program.grids]
        self.rank = self.grids[0].rank
        self.values: dict[int, object] = {}
        self.plans: dict[str, object] = {}
        self.begun: dict[int, object] = {}

    def close(self) -> None:
        for plan in self.plans.values():
            plan.close()

    def call(self, operation, *args, **options):
        """The operation; here all of them pass, for those who want to come between."""
        return operation(*args, **options)

    def keep(self, step: Step, value) -> None:
        if step.into is not None:
            self.values[step.into] = value

    def check(self, step: Step, found) -> None:
        assert_same(found, step.gives[self.rank])

    # -- local arrays --------------------------------------------------------------------------------------------

    def array(self, step: Step) -> None:
        args = step.args
        x = make_array(args["shapes"][self.rank], args["dtype"], args["memory"], (args["seed"], self.rank))
        if args["memory"] == "one_cell":  # has other values than the oracle's array
            x = in_memory(step.gives[self.rank], "C")
        self.keep(step, x)
        self.check(step, x)

    def operate(self, step: Step) -> None:
        args, x = step.args, self.values[step.on[0]]
        wanted = step.gives[self.rank]
        if args["form"] == "plan":
            result = self.call(self.plan_of(step, x).run, x)
        else:
            out = None
            if args["form"] == "out" and wanted is not None:
                out = in_memory(np.zeros_like(wanted, order="C"), args["memory"])
            operation = getattr(sg, args["name"])
            result = self.call(operation, x, self.grids[args["k"]], args["axes"], **args["args"], out=out)
            assert out is None or result is out
        assert x is None or result is None or not np.shares_memory(result, x)
        self.check(step, result)
        self.keep(step, result)

    def start(self, step: Step) -> None:
        args, x = step.args, self.values[step.on[0]]
        if args["form"] == "plan.start":
            plan = self.plan_of(step, x)
            self.begun[step.into] = self.call(plan.start, x)
        else:
            start = getattr(sg, args["name"]).start
            self.begun[step.into] = self.call(start, x, self.grids[args["k"]], args["axes"], **args["args"])

    def plan_of(self, step: Step, x):
        """A plan of an operation; one that is under way is not asked again, but another is made."""
        args = step.args
        facts = (None, None) if x is None else (x.shape, x.dtype)
        on = f"{args['name']} {args['k']} {args['axes']} {args['args']} of {step.on[0]}"
        if args["form"] == "plan.start":
            on += f" for {step.into}"
        if on not in self.plans:
            make = getattr(sg, args["name"]).plan
            named = {"result_dtype" if name == "dtype" else name: value for name, value in args["args"].items()}
            self.plans[on] = self.call(make, self.grids[args["k"]], *facts, args["axes"], **named)
        return self.plans[on]

    def messages(self, step: Step) -> None:
        for found, wanted in zip(self.exchange(step), step.gives[self.rank], strict=True):
            assert_same(found, wanted)

    def from_anybody(self, step: Step) -> None:
        found = self.exchange(step)
        # Until all is received nobody goes on: who takes anybody's messages would take those of a later step.
        self.call(sg.all_reduce, 1, self.grids[step.args["k"]], step.args["axes"], "sum")
        assert_merged(found, step.gives[self.rank])

    def exchange(self, step: Step) -> list:
        """Sends what is listed, and gives what is received, in the order of receiving."""
        grid, axes, listed = self.grids[step.args["k"]], step.args["axes"], step.args["listed"]
        sizes = [grid.shape[axis] for axis in axes]
        me = int(np.ravel_multi_index([grid.coords[axis] for axis in axes], sizes)) if axes else 0

        def device(member):
            return [int(i) for i in np.unravel_index(member, sizes)] if axes else []

        sent = [
            self.call(sg.send.start, self.values[step.on[i]], grid, axes, destination=device(to))
            for i, source, to in listed
            if source == me
        ]
        sources = [device(source) if step.does == "messages" else None for _, source, to in listed if to == me]
        if step.args["form"] == "start":
            begun = [self.call(sg.recv.start, grid, axes, source=source) for source in sources]
            taken = [self.call(request.wait) for request in begun[::-1]][::-1]
        else:
            taken = [self.call(sg.recv, grid, axes, source=source) for source in sources]
        for request in sent:
            self.call(request.wait)
        return taken

    def look(self, step: Step) -> None:
        self.check(step, self.values[step.on[0]])

    # -- sharded arrays ------------------------------------------------------------------------------------------

    def sharded(self, step: Step) -> None:
        args = step.args
        sharding, grid, shape = args["sharding"], self.grids[args["k"]], args["shape"]
        whole = make_array(shape, args["dtype"], "C", args["seed"])
        if args["how"] == "full":
            a = self.call(sg.full, shape, sharding, grid, args["dtype"], fill_value=1)
        elif args["how"] == "from_function":
            a = self.call(sg.from_function, lambda *cells: whole[cells], shape, sharding, grid)
        elif args["how"] == "from_local":
            local = step.gives[self.rank].copy()
            a = self.call(sg.ShardedArray.from_local, local, sharding, grid, shape)
        else:
            a = self.call(sg.ShardedArray.from_global, whole, sharding, grid)
        self.keep(step, a)
        self.check(step, a.local)

    def write(self, step: Step) -> None:
        a = self.values[step.on[0]]
        whole = make_array(a.shape, a.dtype, "C", step.args["seed"])
        a.core[...] = whole[a.sharding.shard_slices(a.shape, a.grid.coords)]
        a.mark_dirty()
        self.check(step, a.local)

    def refresh(self, step: Step) -> None:
        a, args = self.values[step.on[0]], step.args
        s = a.sharding
        if args["how"] == "plan":
            self.call(self.halo_of(step, [a]).update, a)
        elif args["how"] == "method" or s.halo_sizes is None:
            assert self.call(a.update_halo, args["periodic"]) is a
        else:
            update = sg.update_halo.start if args["how"] == "started" else sg.update_halo
            done = self.call(
                update, a.local, a.grid, s.split_axes, s.halo_sizes, args["periodic"], global_shape=a.shape,
                blocks=s.blocks, sharded_dims_offsets=s.sharded_dims_offsets,
            )  # fmt: skip
            assert (self.call(done.wait) if args["how"] == "started" else done) is a.local
        self.check(step, a.local)

    def start_refresh(self, step: Step) -> None:
        halo = self.halo_of(step, [self.values[step.on[0]]])
        self.call(halo.start, self.values[step.on[0]])
        self.begun[step.on[0]] = halo

    def halo_of(self, step: Step, fields) -> sg.HaloExchange:
        """A plan for each array and set of them, as several may be under way at once."""
        a, options = fields[0], self.halo_options(step)
        key = f"halo {step.on[: len(fields)]} {options}"
        if key not in self.plans:
            n = len(fields)
            self.plans[key] = self.call(sg.HaloExchange, a.grid, a.sharding, a.shape, a.dtype, n_fields=n, **options)
        return self.plans[key]

    @staticmethod
    def halo_options(step: Step) -> dict:
        return {name: step.args[name] for name in ("periodic", "corners", "boundary")}

    def overlap(self, step: Step) -> None:
        args, arrays = step.args, [self.values[place] for place in step.on]
        fields, (out,) = arrays[: args["n_fields"]], arrays[args["n_fields"] :] or [None]
        result = self.call(
            sg.map_overlap,
            shifted_sum,
            tuple(fields) if len(fields) > 1 else fields[0],
            args["radius"],
            args["offsets"],
            out=out,
            region=args["region"] and [slice(*ends) for ends in args["region"]],
            **({"halo": self.halo_of(step, fields)} if args["by_plan"] else self.halo_options(step)),
        )
        assert out is None or result is out
        self.keep(step, result)
        for a, wanted in zip((result, *fields), step.gives[self.rank], strict=True):
            assert_same(a.local, wanted)

    def reshard(self, step: Step) -> None:
        a, args = self.values[step.on[0]], step.args
        target, grid = args["sharding"], self.grids[args["k"]]
        if args["how"] == "method":
            b = self.call(a.reshard, target, grid, strategy=args["strategy"])
        else:
            if args["how"] == "plan":
                plan = sg.plan_reshard(a.sharding, target, a.shape, a.dtype, strategy=args["strategy"])
                local = self.call(sg.run_plan, plan, a.local, a.grid)
            else:
                local = self.call(sg.reshard, a.local, a.sharding, target, a.grid, a.shape, strategy=args["strategy"])
            b = self.call(sg.ShardedArray.from_local, local, target, grid, a.shape)
        self.keep(step, b)
        if step.gives is not None:
            self.check(step, b.local)

    def to_global(self, step: Step) -> None:
        self.check(step, self.call(self.values[step.on[0]].to_global, step.args["root"]))

    def cores(self, step: Step) -> None:
        x = self.values[step.on[0]].core.copy()
        self.keep(step, x)
        self.check(step, x)

    def look_sharded(self, step: Step) -> None:
        self.check(step, self.values[step.on[0]].local)

    # -- others --------------------------------------------------------------------------------------------------

    def wait(self, step: Step) -> None:
        turn = step.args["turn"] * self.rank % len(step.on)  # every process begins with another one
        in_order = [*zip(step.on, step.gives[self.rank], strict=True)]
        for place, wanted in in_order[turn:] + in_order[:turn]:
            begun = self.begun.pop(place)
            result = self.call(begun.wait)
            if isinstance(begun, sg.HaloExchange):
                result = self.values[place].local
            else:
                self.values[place] = result
            assert_same(result, wanted)
