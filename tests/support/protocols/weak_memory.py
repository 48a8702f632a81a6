"""A weak memory, and a search through all executions of a few processes on it.

The memory is the view-based machine of release and acquire (Kang, Hur, Lahav, Vafeiadis, Dreyer: A promising semantics
for relaxed-memory concurrency, POPL 2017, without promises; Kaiser et al., ECOOP 2017).  A store leaves a message at
its place.  A process has a *view*: per place the oldest message that it may still read.  A load may read any message
from there on, so stores of different places become visible in any order, differently to different processes.  A
release store's message carries its writer's view, and an acquire load that reads it joins that view to its own.

Two things are added, which real processors do and that machine does not.  A *streaming* store is in the view of its
writer at once, but in what the writer releases only after a ``drain``.  And a plain load may be satisfied *late*: after
later loads and stores of its process, up to its next release store.

A program has no branches.  It is one run of a process, and a load knows the value that it must read.  As long as all
loads read what they must, the process does just that in every execution; the first that reads anything else is the
violation that the search reports.  By the language's rules even more is wrong: two accesses of a place, one of them a
store, that no chain of releases and acquires orders.  ``races`` has those reported too.

What this leaves out: a look at a word that is not there yet changes nothing, so a wait is one step, taken once the word
is there; and two processes that store to one place without an order are reported at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

STORE, STREAM, DRAIN, RELEASE, WAIT, LOAD = "store", "stream", "drain", "release", "wait", "load"


@dataclass(frozen=True)
class Step:
    """The next step of a process; ``value``: that it stores, must load, or waits for (at least).

    ``weak``: a release store as a plain one, or a wait whose load does not acquire.  ``site``: where in the code.
    """

    kind: str
    place: object = None
    value: object = None
    site: str = ""
    weak: bool = False

    @property
    def stores(self) -> bool:
        return self.kind in (STORE, STREAM, RELEASE)


@dataclass(frozen=True)
class Found:
    """The finding of a search: a violation, in words, or None; and the number of states seen."""

    violation: str | None
    states: int


class Violation(Exception):
    pass


@dataclass
class World:
    """A state.  Views hold a number per place, then one per process: how far in its program it is seen to be."""

    at: list[int]  # per process: its next step
    view: list[tuple[int, ...]]  # per process: what it knows
    released: list[tuple[int, ...]]  # per process: what a release store of it would tell
    late: list[tuple[tuple[int, int, object, str], ...]]  # per process: (place, oldest message, value, site) of loads
    memory: list[tuple[tuple[object, tuple[int, ...] | None], ...]]  # per place: messages, (value, view)

    def copy(self) -> World:
        return World(self.at[:], self.view[:], self.released[:], self.late[:], self.memory[:])

    def key(self) -> tuple:
        return tuple(self.at), tuple(self.view), tuple(self.released), tuple(self.late), tuple(self.memory)


class Machine:
    """Programs, one per process, and the memory's first values (0 where ``first`` names none)."""

    def __init__(self, programs: Sequence[Sequence[Step]], first: dict | None = None, races: bool = False):
        places = {step.place: None for program in programs for step in program if step.kind != DRAIN}
        number = {place: i for i, place in enumerate(places)}
        self._names = list(places)
        self._programs = [
            [step if step.kind == DRAIN else replace(step, place=number[step.place]) for step in program]
            for program in programs
        ]
        self._races = races
        self._first = first or {}
        stored = [{s.place for s in program if s.stores} for program in self._programs]
        # A place that nobody else stores to has no message that would come while a load is late.
        self._foreign = [set().union(*stored[:p], *stored[p + 1 :]) for p in range(len(programs))]
        stores = [step for program in self._programs for step in program if step.stores]
        tells = {(step.place, step.kind == RELEASE and not step.weak) for step in stores}
        # Words of which a later message may tell less than an earlier one.
        self._mixed = {place for place, told in tells if told and (place, False) in tells}
        self._loads = [self._loads_of(program) for program in self._programs]

    @staticmethod
    def _loads_of(program: list[Step]) -> dict[int, list[int]]:
        """Per place, which steps load it."""
        loads: dict[int, list[int]] = {}
        for i, step in enumerate(program):
            if step.kind == LOAD:
                loads.setdefault(step.place, []).append(i)
        return loads

    def start(self) -> World:
        n = len(self._programs)
        nothing = (0,) * (len(self._names) + n)
        memory = [((self._first.get(name, 0), None),) for name in self._names]
        return World([0] * n, [nothing] * n, [nothing] * n, [()] * n, memory)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def next_step(self, world: World, p: int) -> Step | None:
        program = self._programs[p]
        return program[world.at[p]] if world.at[p] < len(program) else None

    def readable(self, world: World, p: int, step: Step) -> list[int]:
        """The messages that end a wait."""
        messages = world.memory[step.place]
        return [i for i in range(world.view[p][step.place], len(messages)) if messages[i][0] >= step.value]

    def do(self, world: World, p: int, step: Step, message: int = 0) -> None:
        """Does the step of a process; a wait reads ``message``."""
        if step.kind == LOAD:
            self._load(world, p, step)
        elif step.kind == WAIT:
            self._see(world, p, step.place, message)
            told = world.memory[step.place][message][1]
            if told is not None and not step.weak:
                world.view[p] = tuple(map(max, world.view[p], told))
                world.released[p] = tuple(map(max, world.released[p], told))
        elif step.kind == DRAIN:
            world.released[p] = world.view[p]
        else:
            self._store(world, p, step)
        world.at[p] += 1

    def _load(self, world: World, p: int, step: Step) -> None:
        oldest, messages = world.view[p][step.place], world.memory[step.place]
        load = step.place, oldest, step.value, step.site
        if self._races and oldest != len(messages) - 1:
            self._fail(p, step.site, step.place, "reads what another process stores at the same time")
        if step.place in self._foreign[p]:
            world.late[p] = tuple(sorted({*world.late[p], load}))
        else:
            self.check(world, p, load)

    def _store(self, world: World, p: int, step: Step) -> None:
        place, messages = step.place, world.memory[step.place]
        if world.view[p][place] != len(messages) - 1:
            self._fail(p, step.site, place, "is stored to by two processes at the same time")
        released = step.kind == RELEASE and not step.weak
        if self._races and step.kind != RELEASE:
            self._check_readers(world, p, step)
        told = None
        self._see(world, p, place, len(messages), step.kind != STREAM)
        if released:
            self._see(world, p, len(self._names) + p, world.at[p])
            told = world.released[p]
        world.memory[place] = (*messages, (step.value, told))

    def _check_readers(self, world: World, p: int, step: Step) -> None:
        for q, loads in enumerate(self._loads):
            steps = loads.get(step.place, ())
            last = bisect_left(steps, world.at[q]) - 1
            if q != p and last >= 0 and steps[last] >= world.view[p][len(self._names) + q]:
                self._fail(p, step.site, step.place, f"is overwritten while process {q} may still read it")

    def _see(self, world: World, p: int, place: int, message: int, released: bool = True) -> None:
        world.view[p] = _with(world.view[p], place, message)
        if released:
            world.released[p] = _with(world.released[p], place, message)

    def check(self, world: World, p: int, load: tuple[int, int, object, str]) -> None:
        """Whether a load reads what it must, whichever of the messages that are there by now it reads."""
        place, oldest, value, site = load
        for found, _ in world.memory[place][oldest:]:
            if found != value:
                self._fail(p, site, place, f"is read as {found}, not {value}")

    def satisfy(self, world: World, p: int, load: tuple[int, int, object, str], message: int) -> None:
        """Has a late load read a message."""
        place, _oldest, value, site = load
        found = world.memory[place][message][0]
        if found != value:
            self._fail(p, site, place, f"is read as {found}, not {value}")
        world.late[p] = tuple(each for each in world.late[p] if each != load)
        self._see(world, p, place, max(world.view[p][place], message))

    def _fail(self, p: int, site: str, place: int, what: str) -> None:
        raise Violation(f"process {p} at {site or 'its step'}: {self._names[place]} {what}")

    # -- all executions ------------------------------------------------------------------------------------------------

    def search(self, every_step: bool = False) -> Found:
        """Looks for a violation in all executions.

        By default only the order of those steps branches which can take a violation away from others: the steps that
        end a process's late loads, in all orders.  All else is done as soon as it can be, waits read the oldest
        message that suffices, and a late load is satisfied at the last moment, by any message there is by then.  That
        loses nothing: messages stay, and a process that comes earlier and knows less has more of them to read.
        ``every_step`` branches at all of it, to check this argument.
        """
        branches = self._every_branch if every_step else self._branches
        seen: set[tuple] = set()
        path: list[str] = []
        try:
            start = self.start()
            if not every_step:
                self._run_on(start)
            # Depth first; each entry: how long the path to it is, what led to it, the state.
            left: list[tuple[int, str, Callable[[], World]]] = [(0, "", lambda: start)]
            while left:
                depth, name, make = left.pop()
                path[depth:] = [name] if name else []
                world = make()
                key = world.key()
                if key in seen:
                    continue
                seen.add(key)
                found = list(branches(world))
                if not found:
                    self._end(world)
                left += [(len(path), *branch) for branch in found]
        except Violation as violation:
            return Found("\n".join([str(violation), "after", *path]), len(seen))
        return Found(None, len(seen))

    def _end(self, world: World) -> None:
        """Nobody can go on: everybody must be at the end."""
        waiting = [
            f"process {p} at {step.site}: waits for {self._names[step.place]} to become {step.value}"
            for p in range(len(self._programs))
            if (step := self.next_step(world, p)) is not None
        ]
        if waiting:
            raise Violation("stuck: " + "; ".join(waiting))
        for p, loads in enumerate(world.late):
            for load in loads:
                self.check(world, p, load)

    def _late_before(self, world: World, p: int, step: Step) -> list:
        """The late loads that must be satisfied before a step: a release store, or a store to where they load."""
        if step.kind == RELEASE and not step.weak:
            return list(world.late[p])
        if step.stores:
            return [load for load in world.late[p] if load[0] == step.place]
        return []

    def _is_choice(self, world: World, p: int, step: Step) -> bool:
        if step.kind == WAIT:
            return step.place in self._mixed
        return (step.kind == RELEASE and not step.weak) or bool(self._late_before(world, p, step))

    def _run_on(self, world: World) -> World:
        """Does all that needs no branch."""
        went_on = True
        while went_on:
            went_on = False
            for p in range(len(self._programs)):
                while (step := self.next_step(world, p)) is not None and not self._is_choice(world, p, step):
                    messages = self.readable(world, p, step) if step.kind == WAIT else [0]
                    if not messages:
                        break
                    self.do(world, p, step, messages[0])
                    went_on = True
        return world

    def _branches(self, world: World) -> Iterator[tuple[str, Callable[[], World]]]:
        def make(p: int, step: Step, message: int) -> World:
            after, loads = world.copy(), self._late_before(world, p, step)
            for load in loads:
                self.check(after, p, load)
            after.late[p] = tuple(load for load in after.late[p] if load not in loads)
            self.do(after, p, step, message)
            return self._run_on(after)

        for p in range(len(self._programs)):
            step = self.next_step(world, p)
            if step is not None and self._is_choice(world, p, step):
                for message in self.readable(world, p, step) if step.kind == WAIT else [0]:
                    yield self._name(p, step), lambda p=p, step=step, message=message: make(p, step, message)

    def _every_branch(self, world: World) -> Iterator[tuple[str, Callable[[], World]]]:
        def make(p: int, step: Step, message: int) -> World:
            after = world.copy()
            self.do(after, p, step, message)
            return after

        def make_late(p: int, load, message: int) -> World:
            after = world.copy()
            self.satisfy(after, p, load, message)
            return after

        for p in range(len(self._programs)):
            for load in world.late[p]:
                for message in range(load[1], len(world.memory[load[0]])):
                    name = f"  process {p}: late load of {self._names[load[0]]}"
                    yield name, lambda p=p, load=load, message=message: make_late(p, load, message)
            step = self.next_step(world, p)
            if step is not None and not self._late_before(world, p, step):
                for message in self.readable(world, p, step) if step.kind == WAIT else [0]:
                    yield self._name(p, step), lambda p=p, step=step, message=message: make(p, step, message)

    def _name(self, p: int, step: Step) -> str:
        place = "" if step.kind == DRAIN else f" {self._names[step.place]} {step.value}"
        return f"  process {p}: {step.kind}{place}  ({step.site})"


def _with(view: tuple[int, ...], place: int, message: int) -> tuple[int, ...]:
    return (*view[:place], message, *view[place + 1 :])


def weakened(program: Sequence[Step], site: str, kind: str, how: str) -> list[Step]:
    """The program with the steps of a kind at a site made ``weak`` (no release, no acquire) or ``left out``."""
    there = [step.site == site and step.kind == kind for step in program]
    if how == "left out":
        return [step for step, is_there in zip(program, there) if not is_there]
    return [replace(step, weak=True) if is_there else step for step, is_there in zip(program, there)]
