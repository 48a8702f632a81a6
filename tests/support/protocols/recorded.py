"""Programs for the weak memory, recorded from the kernels' own source.

The Python functions of compiled kernels are run by the interpreter, with other words for memory: what they load, store,
release and wait for in shared memory is noted, step by step.  So a program is what the code does, line by line, and a
change of the code changes the program.  Processes take turns: one runs until it has to wait.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from linecache import getline
from threading import Semaphore, Thread
from types import FunctionType, ModuleType, SimpleNamespace

from support.protocols.weak_memory import DRAIN, LOAD, RELEASE, STORE, STREAM, WAIT, Step

WORD = 8
_SHARED_FROM = 1 << 40  # addresses; what is below is seen by its process alone


class Recorder:
    """A memory of words for ``size`` processes, and what each of them does to its shared part."""

    def __init__(self, size: int):
        self.size = size
        self.words: dict[int, int] = defaultdict(int)
        self.names: dict[int, str] = {}  # of shared addresses
        self._next = {False: WORD, True: _SHARED_FROM}
        self._steps: list[list[Step]] = [[] for _ in range(size)]
        self._loaded: list[set[int | None]] = [set() for _ in range(size)]
        self._now = 0
        self._tried = 0  # waits in a row that went on waiting

    def allocate(self, n_words: int, name: str | None = None) -> int:
        """The address of zeroed words; shared ones have a name."""
        address = self._next[name is not None]
        self._next[name is not None] += -(-n_words * WORD // 64) * 64 + 64
        if name is not None:
            for i in range(n_words):
                self.names[address + i * WORD] = f"{name}[{i}]"
        return address

    # -- the words that take the place of those of kernels/address.py and kernels/copy/vectors.py --------------

    def load(self, address: int, slot: int = 0) -> int:
        value = self.words[address + WORD * slot]
        self._note(LOAD, address + WORD * slot, value)
        return value

    def store(self, address: int, slot: int, value: int) -> None:
        self.words[address + WORD * slot] = value
        self._note(STORE, address + WORD * slot, value)

    def stream(self, address: int, value: int) -> None:
        self.words[address] = value
        self._note(STREAM, address, value)

    def drain(self) -> None:
        self._note(DRAIN)

    def store_release(self, address: int, value: int) -> None:
        self.words[address] = value
        self._note(RELEASE, address, value)

    def wait_for(self, state: int, address: int, value: int, member: int) -> int:
        while self.words[address] < value:
            self._tried += 1
            assert self._tried <= 2 * self.size, f"all wait; {self.names[address]} must become {value}"
            self._pass_on()
        self._tried = 0
        self._note(WAIT, address, value)
        return 0

    def await_word(self, state: int, word: int, number: int, member: int, patient: bool) -> int:
        """``_await_word`` of kernels/ahead/runs.py, so that each of its callers is a place of its own."""
        return self.wait_for(state, word, number, member)

    def move(self, source: int, target: int, n_bytes: int) -> None:
        for at in range(0, n_bytes, WORD):
            self.store(target + at, 0, self.load(source + at))

    def _note(self, kind: str, address: int | None = None, value: int = 0) -> None:
        if address is not None and address < _SHARED_FROM:
            return
        assert address is None or address in self.names, "beyond what was allocated"
        again = self._loaded[self._now]  # to load once more, nothing else done between, shows no more
        if kind != LOAD:
            again.clear()
        elif address in again:
            return
        else:
            again.add(address)
        frame = sys._getframe(2)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        function, line = frame.f_code.co_name, frame.f_lineno
        site = f"{function}: {getline(frame.f_code.co_filename, line).strip()}"
        self._steps[self._now].append(Step(kind, address, value, site))

    # -- turns ---------------------------------------------------------------------------------------------------------

    def run(self, body: Callable[[int], object]) -> None:
        """Runs ``body(process)`` for all processes."""
        turns = self._turns = [Semaphore(0) for _ in range(self.size)]
        self._running = set(range(self.size))
        failures: list[BaseException] = []
        done = Semaphore(0)

        def live(process: int) -> None:
            turns[process].acquire()
            try:
                if not failures:
                    body(process)
            except BaseException as failure:  # told below
                failures.append(failure)
            self._running.discard(process)
            self._tried = 0
            if self._running:
                self._pass_on(stay=False)
            else:
                done.release()

        threads = [Thread(target=live, args=(process,), daemon=True) for process in range(self.size)]
        for thread in threads:
            thread.start()
        self._now = 0
        turns[0].release()
        done.acquire()
        if failures:
            raise failures[0]

    def _pass_on(self, stay: bool = True) -> None:
        me = self._now
        self._now = min(self._running, key=lambda process: (process - me - 1) % self.size)
        self._turns[self._now].release()
        if stay:
            self._turns[me].acquire()

    # -- what came of it -----------------------------------------------------------------------------------------------

    def programs(self) -> list[list[Step]]:
        """The accesses of each process to words that several of them use, by the names of the words."""
        users = defaultdict(set)
        for process, steps in enumerate(self._steps):
            for step in steps:
                users[step.place].add(process)
        return [
            [
                Step(step.kind, self.names.get(step.place), step.value, step.site)
                for step in steps
                if step.kind == DRAIN or len(users[step.place]) > 1
            ]
            for steps in self._steps
        ]


def reread(module: ModuleType, words: dict[str, object]) -> dict[str, object]:
    """The names of a module of kernels, its compiled functions as Python has them; ``words`` replace others."""
    names = dict(vars(module))
    for name, value in vars(module).items():
        function = getattr(value, "py_func", None) or getattr(value, "function", None) or value
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            names[name] = reread_function(function, names)
    names.update(words)
    return names


def reread_function(function: FunctionType, names: dict[str, object]) -> FunctionType:
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)


def small_slots() -> SimpleNamespace:
    """The words of kernels/protocol/slots.py, with frames of two words: more would show no more."""
    from spmd_grid.kernels.protocol import slots

    return SimpleNamespace(**{**vars(slots), "FRAME_WORDS": 2})


def copy_words(recorder: Recorder) -> Callable[..., int]:
    """``copy_rows`` of kernels/copy/boxes.py, of which only the loops over a plane's bytes are replaced.

    A plane is copied as one that is larger than the caches.
    """
    from spmd_grid.kernels.copy import boxes as copy

    def plane(source, target, run, n1, s1, t1, n0, s0, t0, streamed):
        assert n1 == n0 == 1
        for at in range(0, run, WORD):
            if streamed:
                recorder.stream(target + at, recorder.load(source + at))
            else:
                recorder.store(target + at, 0, recorder.load(source + at))

    words = {"load": recorder.load, "drain": recorder.drain, "_plane": plane, "STREAM_PLANE": 0, "STREAM_FROM": 0}
    return reread(copy, words)["copy_rows"]


def table_of(recorder: Recorder, rows: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """A copy table of (source, target, bytes) rows in memory: its address, and words per row."""
    from spmd_grid.kernels.copy.tables import FIXED_COLUMNS

    columns = FIXED_COLUMNS + 3
    table = recorder.allocate(columns * len(rows))
    for i, (source, target, n_bytes) in enumerate(rows):
        for column, value in enumerate((source, target, 0, 0, n_bytes, 1, 1)):
            recorder.words[table + WORD * (columns * i + column)] = value
    return table, columns
