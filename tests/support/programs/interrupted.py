"""Random programs under exceptions that come at any moment: what must be true of them all the same.

The programs are those of `generator`.  On one or two ranks an exception is raised somewhere within an operation,
by a trace function or by a timer's signal; the rank catches it and goes on with the program.  Then one of these holds:

- the operation had not begun: it is called again, and the program goes on to its right end;
- it was through, and only its result is lost: the rank takes the oracle's and goes on, or, where it cannot make up for
  what is lost (a plan, a request), cuts the program off on purpose;
- it was cut off: every later operation raises `CutOffError`, with one text on all ranks;
- the operation told all its ranks of the exception: the same `SpmdError` on them, and they cut the program off.

Whatever an operation returned before is right.
"""

from __future__ import annotations

import pickle
import random
import signal
import traceback
from dataclasses import dataclass, field

import spmd_grid as sg
from support.interrupting import Events, Interrupt, TimeLimit
from support.programs.runner import Run
from support.programs.steps import Program, Step
from support.properties.property_oracle import assert_same
from support.properties.property_strategies import in_memory

__all__ = ["CtrlC", "Interruption", "Outcome", "draw_interruptions", "faults_of", "play_interrupted"]


class CtrlC(KeyboardInterrupt):
    """The exception of a simulated Ctrl-C, told apart from a real one."""


KINDS = Interrupt, TimeLimit, CtrlC
_MOST_STEPS_AFTERWARDS = 3  # of the program, once it is cut off: they tell the same


@dataclass
class Interruption:
    """An exception of this ``kind``: at an event of a call (both numbered), or ``seconds`` after the beginning."""

    kind: type[BaseException]
    call: int = 0
    event: int = 0
    opcodes: bool = False
    seconds: float | None = None


@dataclass
class Outcome:
    """The outcome of a program on one rank; ``faults`` must be empty."""

    place: str = ""  # where the interrupt came
    again: int = 0  # operations that had not begun and were called again
    made_up: int = 0  # lost results that the oracle had
    given_up: int = 0  # others
    texts: set[str] = field(default_factory=set)  # of CutOffErrors
    errors: set[str] = field(default_factory=set)  # other errors of the package, by step
    faults: list[str] = field(default_factory=list)


def draw_interruptions(seed, program: Program, longest: float | None = None) -> dict[int, Interruption]:
    """By rank; one or two ranks.  ``longest``: half of them come by a signal, within so many seconds."""
    draw = random.Random(str(seed))
    ranks = draw.sample(range(program.n_ranks), min(program.n_ranks, draw.choice([1, 1, 2])))
    return {rank: _draw_one(draw, program, longest) for rank in ranks}


def _draw_one(draw: random.Random, program: Program, longest: float | None) -> Interruption:
    kind = draw.choice(KINDS)
    if longest is not None and draw.random() < 0.5:
        return Interruption(kind, seconds=draw.uniform(0.0, longest))
    opcodes = draw.random() < 0.5
    most = draw.choice([15, 60, 120, 250]) * (5 if opcodes else 1)  # early ones matter as much as late ones
    return Interruption(kind, draw.randrange(2 * len(program.steps) // 3 + 1), draw.randrange(most), opcodes)


def play_interrupted(program: Program, interruptions: dict[int, Interruption]) -> Outcome:
    """All steps on this rank.  Collective over ``program.n_ranks`` processes."""
    try:
        run = _InterruptedRun(program, interruptions)
    except sg.CutOffError as error:  # others have made their grids, and gone on
        return Outcome(texts={str(error)})
    return run.play()


def faults_of(outcomes: list[Outcome], by_messages: bool = False) -> list[str]:
    """The faults that show on all ranks together.

    ``by_messages``: ranks hear of cuts by messages, as under MPI.  Of two cuts at one moment a third rank may hear in
    another order than they do, and then has another text.
    """
    n_cuts = sum(bool(outcome.place or outcome.given_up) for outcome in outcomes) if by_messages else 1
    faults = [f"on rank {rank}: {fault}" for rank, outcome in enumerate(outcomes) for fault in outcome.faults]
    for name in "texts", "errors":
        found = set().union(*(getattr(outcome, name) for outcome in outcomes))
        if len(found) > (max(n_cuts, 1) if name == "texts" else 1):
            faults.append(f"{len(found)} {name}, not one:\n" + "\n".join(sorted(found)))
    if len({bool(outcome.texts) for outcome in outcomes}) > 1:
        faults.append(f"cut off on some ranks alone: {[sorted(outcome.texts) for outcome in outcomes]}")
    return faults


class _Lost(Exception):
    """An operation went through, and the interrupt came before its result was here."""

    def __init__(self, operation):
        self.operation = getattr(operation, "__name__", "")


class _Tokens(list):
    """The token of a gate; counts how often it has come back."""

    ended = 0

    def append(self, token) -> None:
        super().append(token)
        self.ended += 1


class _Events(Events):
    """Events in which an exception gets anywhere: Python itself swallows what destructors raise."""

    def _trace(self, frame, event, arg):
        if self.count == self.n and _in_destructor(frame):
            self.n += 1
        return super()._trace(frame, event, arg)


def _in_destructor(frame) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class _InterruptedRun(Run):
    """A run that comes between the program and its operations."""

    def __init__(self, program: Program, interruptions: dict[int, Interruption]):
        super().__init__(program)
        self.program, self.outcome = program, Outcome()
        self.interruption = interruptions.get(self.rank)
        self.n_calls = 0
        self.is_cut = self.is_over = False
        self.gate = self.grids[0].process.gate
        self.gate.idle = self.gate._tokens = self.tokens = _Tokens([True])
        self.events: _Events | None = None

    def play(self) -> Outcome:
        steps = iter(enumerate(self.program.steps))
        with _timer(self.interruption, self.outcome):
            for i, step in steps:
                self._play_step(i, step)
                if self.is_cut or self.is_over:
                    break
            afterwards = [step for _, step in zip(range(_MOST_STEPS_AFTERWARDS), (step for _, step in steps))]
            for step in afterwards if self.is_cut else ():
                self._play_afterwards(step)
        if not self.is_over:
            self._look_back()
        if self.events is not None:
            self.outcome.place = self.events.place
        return self.outcome

    # -- before --------------------------------------------------------------------------------------------------

    def _play_step(self, i: int, step: Step) -> None:
        try:
            getattr(self, step.does)(step)
        except _Lost as lost:
            if self._make_up(step, lost):
                self.outcome.made_up += 1
            else:
                self._give_up()
        except KINDS:
            self.is_cut = True
        except sg.CutOffError as error:
            self._note(error)
        except sg.SpmdError as error:
            self.outcome.errors.add(f"step {i}: {type(error).__name__}: {error}")
            self._give_up()
        except pickle.PicklingError:  # which Python raises in place of what comes while it looks up a type
            self.is_cut = True
            if not self.gate.text:
                self._blame(f"step {i}, {step}: not cut off by\n{traceback.format_exc()}")
        except BaseException as error:
            if type(error).__name__ == "RankStopped":
                raise
            self._blame(f"step {i}, {step}:\n{traceback.format_exc()}")
            self._give_up()

    def call(self, operation, *args, **options):
        if self.is_cut:
            return self._call_afterwards(operation, args, options)
        self.n_calls += 1
        while True:
            ended = self.tokens.ended
            try:
                with self._watch():
                    return operation(*args, **options)
            except KINDS:
                if self.gate.text:
                    raise
                if self.tokens.ended > ended:
                    raise _Lost(operation) from None
                self.outcome.again += 1  # it has not begun

    def _watch(self):
        interruption = self.interruption
        if interruption is None or interruption.seconds is not None or self.n_calls <= interruption.call:
            return _NOTHING
        if self.events is None:
            self.events = _Events(interruption.event, interruption.kind, interruption.opcodes)
        return self.events.watch() if not self.events.place else _NOTHING

    def _make_up(self, step: Step, lost: _Lost) -> bool:
        """Sets what the operation would have given; whether that can be."""
        if step.does == "operate" and lost.operation != "plan":
            wanted = step.gives[self.rank]
            self.keep(step, None if wanted is None else in_memory(wanted, "C"))
        elif step.does == "refresh" and lost.operation == "update" and step.args["how"] == "plan":
            self.values[step.on[0]].local[...] = step.gives[self.rank]  # the functions at the boundary may be missing
        elif step.does == "refresh" and step.args["how"] == "method":
            assert_same(self.values[step.on[0]].local, step.gives[self.rank])
        else:
            return step.does == "to_global"
        return True

    def _give_up(self) -> None:
        """Cuts the program off, as it cannot go on here."""
        self.outcome.given_up += 1
        self.is_over = self.program.n_ranks == 1  # whose process nothing is refused, as nobody counts on it
        if self.is_over:
            return
        try:
            self.gate.run("a program that cannot go on", _interrupt)
        except Interrupt:
            self.is_cut = True
        except sg.CutOffError as error:
            self._note(error)

    # -- afterwards ----------------------------------------------------------------------------------------------

    def _note(self, error: sg.CutOffError) -> None:
        self.is_cut = True
        self.outcome.texts.add(str(error))

    def check(self, step: Step, found) -> None:
        if not self.is_cut:
            super().check(step, found)

    def _call_afterwards(self, operation, args, options):
        while True:
            try:
                result = operation(*args, **options)
            except KINDS:
                continue
            if not _needs_nobody(operation):
                self._blame(f"{operation!r} went through after the program had been cut off")
            return result

    def _play_afterwards(self, step: Step) -> None:
        try:
            getattr(self, step.does)(step)
        except sg.CutOffError as error:
            self._note(error)
        except KeyError:
            pass  # what it takes was not made
        except AssertionError:
            pass  # of arrays that the cut has left anyhow
        except BaseException as error:
            if type(error).__name__ == "RankStopped":
                raise
            self._blame(f"after the cut, {step}:\n{traceback.format_exc()}")

    def _look_back(self) -> None:
        """Everybody meets once more, or nobody does; and what has been made is given back."""
        try:
            total = sg.all_reduce(1, self.grids[0], range(self.grids[0].ndim), "sum")
            if self.is_cut or total != self.program.n_ranks:
                self._blame(f"all_reduce gave {total} in the end, of a program {'' if self.is_cut else 'not '}cut off")
        except sg.CutOffError as error:
            self._note(error)
        except sg.SpmdError:
            self._blame(f"in the end:\n{traceback.format_exc()}")
        for plan in self.plans.values():
            try:
                plan.close()
            except sg.RequestError:
                if not self.is_cut:
                    raise

    def _blame(self, words: str) -> None:
        self.outcome.faults.append(words)


def _needs_nobody(operation) -> bool:
    """Whether it does not go through the gate: all_slice, and the wait for what it gives."""
    owner = getattr(operation, "__self__", None)
    return owner is sg.all_slice or getattr(owner, "_comm", sg) is None  # as of `Request.completed`


def _interrupt() -> None:
    raise Interrupt


class _Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


_NOTHING = _Nothing()


class _timer:
    """Raises the exception at its time if an operation is under way, else as soon as one is."""

    def __init__(self, interruption: Interruption | None, outcome: Outcome):
        self._seconds = None if interruption is None else interruption.seconds
        self._interruption, self._outcome = interruption, outcome
        self._is_over = False

    def __enter__(self):
        if self._seconds is not None:
            self._before = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds, 1e-6))

    def __exit__(self, *_):
        if self._seconds is not None:
            self._is_over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _ring(self, _, frame) -> None:
        outer = frame
        while outer is not None:
            if outer.f_code is _InterruptedRun.call.__code__ and frame is not outer:
                self._outcome.place = f"{frame.f_code.co_filename}:{frame.f_lineno} signal"
                raise self._interruption.kind(self._outcome.place)
            outer = outer.f_back
        if not self._is_over:
            signal.setitimer(signal.ITIMER_REAL, 20e-6)
