"""Plays the steps of a program on all ranks' arrays at once, by brute force: what every process must then hold."""

from __future__ import annotations

import math

import numpy as np

from support.programs.steps import Step
from support.properties.property_oracle import Oracle, coordinates
from support.properties.property_strategies import make_array
from support.properties.shards_oracle import core_in_local, core_of, cut_out, overlapped, with_halos

__all__ = ["Local", "ProgramOracle", "Sharded"]


class Local:
    """Every process's own array, or None; ``ready`` unless it is the result of something under way."""

    def __init__(self, xs, ready=True):
        self.xs, self.ready = xs, ready


class Sharded:
    """A global array, its sharding on one of the grids, and the local arrays (None where these are nobody's business:
    of partial values it is only agreed what they combine to)."""

    def __init__(self, whole, k, sharding, local_arrays):
        self.whole, self.k, self.sharding, self.local_arrays = whole, k, sharding, local_arrays
        self.ready = True

    @property
    def is_plain(self) -> bool:
        return self.local_arrays is not None

    def is_like(self, other) -> bool:
        """Whether both have one layout, on one grid, and one dtype."""
        return (self.k, self.sharding, self.whole.shape, self.whole.dtype, self.is_plain) == (
            other.k, other.sharding, other.whole.shape, other.whole.dtype, other.is_plain,
        )  # fmt: skip


class ProgramOracle:
    """The arrays by number, and the numbers of those that are under way.  Methods are named as the steps."""

    def __init__(self, grids):
        self.grids = grids
        self.n_ranks = math.prod(grids[0][0])
        self.values: list[Local | Sharded] = []
        self.under_way: list[int] = []

    def play(self, step: Step) -> None:
        """Sets what the step gives, and where."""
        getattr(self, step.does)(step)

    def by_device(self, k, by_process) -> list:
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

    def _coords(self, k) -> list:
        return coordinates(self.grids[k][0])

    def _keep(self, step: Step, value) -> None:
        step.into = len(self.values)
        self.values.append(value)

    # -- local arrays --------------------------------------------------------------------------------------------

    def array(self, step: Step) -> None:
        args = step.args
        step.gives = [
            make_array(shape, args["dtype"], "C", (args["seed"], i)) for i, shape in enumerate(args["shapes"])
        ]
        self._keep(step, Local(step.gives))

    def operate(self, step: Step) -> None:
        step.gives = self._results(step)
        if any(x is not None for x in step.gives):
            self._keep(step, Local(step.gives))

    def start(self, step: Step) -> None:
        self._keep(step, Local(self._results(step), ready=False))
        self.under_way.append(step.into)

    def _results(self, step: Step) -> list:
        args, xs = step.args, self.values[step.on[0]].xs
        operation = getattr(Oracle(self.grids[args["k"]][0], args["axes"]), args["name"])
        with np.errstate(all="ignore"):
            return self._by_process(args["k"], operation(self.by_device(args["k"], xs), **args["args"]))

    def messages(self, step: Step) -> None:
        """The messages that every member receives, as listed."""
        step.gives = self._received(step, lambda sent: [x for _, x in sent])

    def from_anybody(self, step: Step) -> None:
        """The messages that every member receives by sender, in sending order; between senders the order is open."""

        def by_sender(sent):
            return [[x for sender, x in sent if sender == each] for each in sorted({sender for sender, _ in sent})]

        step.gives = self._received(step, by_sender)

    def _received(self, step: Step, arranged) -> list:
        k, oracle = step.args["k"], Oracle(self.grids[step.args["k"]][0], step.args["axes"])
        by_device = [self.by_device(k, self.values[place].xs) for place in step.on]
        received = []
        for rank, group in enumerate(oracle.groups):
            me = group.index(rank)
            sent = [(source, by_device[i][group[source]]) for i, source, to in step.args["listed"] if to == me]
            received.append(arranged(sent))
        return self._by_process(k, received)

    def look(self, step: Step) -> None:
        step.gives = self.values[step.on[0]].xs

    # -- sharded arrays ------------------------------------------------------------------------------------------

    def sharded(self, step: Step) -> None:
        args = step.args
        whole = make_array(args["shape"], args["dtype"], "C", args["seed"])
        if args["how"] == "full":
            whole = np.full(args["shape"], 1, args["dtype"])
        self._keep_sharded(step, whole)

    def reshard(self, step: Step) -> None:
        self._keep_sharded(step, self.values[step.on[0]].whole)

    def _keep_sharded(self, step: Step, whole) -> None:
        """A new sharded array, whose halos hold what the domain has there, and zeros beyond."""
        k, sharding = step.args["k"], step.args["sharding"]
        if not sharding.partial_axes:
            step.gives = self._by_process(k, [cut_out(whole, sharding, coords) for coords in self._coords(k)])
        self._keep(step, Sharded(whole, k, sharding, step.gives))

    def write(self, step: Step) -> None:
        value = self.values[step.on[0]]
        value.whole = make_array(value.whole.shape, value.whole.dtype, "C", step.args["seed"])

        def written(local, coords):
            local = local.copy()
            local[core_in_local(value.sharding, value.whole.shape, coords)] = value.whole[
                core_of(value.sharding, value.whole.shape, coords)
            ]
            return local

        step.gives = self._change(value, written)

    def refresh(self, step: Step) -> None:
        step.gives = self._refreshed(self.values[step.on[0]], step.args)

    def start_refresh(self, step: Step) -> None:
        value = self.values[step.on[0]]
        self._refreshed(value, step.args)
        value.ready = False
        self.under_way.append(step.on[0])

    def _refreshed(self, value: Sharded, args) -> list:
        return self._change(value, lambda local, coords: with_halos(local, value.whole, value.sharding, coords, args))

    def _change(self, value: Sharded, rule) -> list:
        """New local arrays; others than before, since earlier steps are to know theirs."""
        by_device = self.by_device(value.k, value.local_arrays)
        changed = [rule(local, coords) for local, coords in zip(by_device, self._coords(value.k), strict=True)]
        value.local_arrays = self._by_process(value.k, changed)
        return value.local_arrays

    def overlap(self, step: Step) -> None:
        """The arrays with new halos, and one that is computed from them; what it is not computed for stays there."""
        args, fields = step.args, [self.values[place] for place in step.on[: step.args["n_fields"]]]
        for value in fields:
            self._refreshed(value, args)
        first, outs = fields[0], step.on[args["n_fields"] :]
        if outs:
            out = self.values[outs[0]]
        else:
            zeros = [np.zeros_like(local, order="C") for local in first.local_arrays]
            out = Sharded(np.zeros_like(first.whole), first.k, first.sharding, zeros)
            self._keep(step, out)
        shape, out.whole = out.whole.shape, out.whole.copy()
        by_field = iter(zip(*(self.by_device(value.k, value.local_arrays) for value in fields), strict=True))

        def computed(local, coords):
            local = overlapped(next(by_field), local, out.sharding, shape, coords, args)
            core = core_in_local(out.sharding, shape, coords)
            out.whole[core_of(out.sharding, shape, coords)] = local[core]
            return local

        self._change(out, computed)
        step.gives = list(zip(*(value.local_arrays for value in (out, *fields)), strict=True))

    def to_global(self, step: Step) -> None:
        value, root = self.values[step.on[0]], step.args["root"]
        gives = [value.whole if root in (None, coords) else None for coords in self._coords(value.k)]
        step.gives = self._by_process(value.k, gives)

    def cores(self, step: Step) -> None:
        value = self.values[step.on[0]]
        cores = [value.whole[core_of(value.sharding, value.whole.shape, coords)] for coords in self._coords(value.k)]
        step.gives = self._by_process(value.k, [core.copy() for core in cores])
        self._keep(step, Local(step.gives))

    def look_sharded(self, step: Step) -> None:
        step.gives = self.values[step.on[0]].local_arrays

    # -- others --------------------------------------------------------------------------------------------------

    def wait(self, step: Step) -> None:
        step.gives = [[] for _ in range(self.n_ranks)]
        for place in step.on:
            value = self.values[place]
            results = value.xs if isinstance(value, Local) else value.local_arrays
            for mine, x in zip(step.gives, results, strict=True):
                mine.append(x)
            self.under_way.remove(place)
            value.ready = any(x is not None for x in results)  # of a result that nobody has there is nothing to use
