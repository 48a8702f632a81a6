"""Members of a group that relay arrays, round after round, as ops/movement and ops/reduction have them do it.

The kernels of meetings and relays, the copies and the folds are those of the package, run by the interpreter (see
``recorded``), and so are the tables that lead them: they are made by ops/movement/relayed_copies.py and
ops/reduction/relayed_folding.py and relayed_alike.py, for rings of a few words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from meeting_model import NOTHING, Member
from support.protocols.recorded import WORD, Recorder, reread, reread_function
from support.protocols.weak_memory import Step

Cells = list[list[tuple[int, int]]]  # for each cell of a result the cells, (rank, index), whose sum it is


@cache
def recorded_relays(size: int, rounds: tuple, slots: int | None = None) -> tuple[tuple[Step, ...], ...]:
    """The programs of ``size`` members that do what ``rounds`` say: (what, pieces of an array or part).

    ``slots``: of a ring; the package's number unless given.
    """
    from spmd_grid.exchange.agreement.relay import RING_BYTES, SLOT_BYTES

    recorder = Recorder(size)
    members = [RelayMember(recorder, rank, slots or RING_BYTES // SLOT_BYTES) for rank in range(size)]
    for member in members:
        member.meets(members)

    def live(rank: int) -> None:
        for number, (what, pieces) in enumerate(rounds, 1):
            members[rank].relay(number, what, pieces)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class RelayMember(Member):
    """A member with a ring."""

    def __init__(self, recorder: Recorder, rank: int, slots: int):
        super().__init__(recorder, rank)
        self._slots = slots
        from spmd_grid.kernels.protocol import relay, sleeping, waits

        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "wait_for")}
        words["announce"] = reread(waits, words | {"at": self.at})["announce"]
        words["wake"] = reread(sleeping, words | {"at": self.at})["wake"]
        words["copy_at"], words["fold_at"] = self._copy_at, self._fold_at
        self._relay = reread(relay, words | {"at": self.at})["relay"]
        self.ring = recorder.allocate(slots * self.size, f"ring {rank}")

    def _name_words(self) -> None:
        super()._name_words()
        self.recorder.names[self.block + 2 * self.line_bytes + 128] = f"relayed {self.rank}"

    def meets(self, members: Sequence[Member]) -> None:
        super().meets(members)
        from spmd_grid.exchange.agreement.relay import Rings

        self._rings = Rings(self.state, np.array([member.ring for member in members], np.int64), self.rank)

    def relay(self, number: int, what: str, pieces: int) -> None:
        """All meet, relay new arrays, and have what they should."""
        recorder = self.recorder
        words, n, expected = getattr(self, f"_{what}")(pieces)
        x, result = recorder.allocate(n), recorder.allocate(len(expected) + 1)
        for i in range(n):
            recorder.words[x + i * WORD] = _cell(self.rank, number, i)
        self.post(NOTHING)
        assert self._relay(words, x, result) == self.at.FINE
        found = [recorder.words[result + i * WORD] for i in range(len(expected))]
        assert found == [sum(_cell(rank, number, i) for rank, i in cells) for cells in expected], (what, self.rank)

    # -- what the kernel calls by address ------------------------------------------------------------------------------

    def _copy_at(self, function, table, columns, first, stop, source, target, streams):
        self._copy_rows(table, columns, first, stop, source, target, streams)

    def _fold_at(self, function, rows, size, n, out, buffer):
        self.fold([self.recorder.words[rows + i * WORD] for i in range(size)], n, out, buffer)

    # -- programs: the address of their words, the cells of an array, and what comes of them ---------------------------

    def _gather(self, pieces: int) -> tuple[int, int, Cells]:
        """All copy the whole arrays of all."""
        return self._wholes(pieces, range(self.size), range(self.size))

    def _broadcast(self, pieces: int) -> tuple[int, int, Cells]:
        """All copy the array of the last one."""
        return self._wholes(pieces, [self.size - 1], range(self.size))

    def _collect(self, pieces: int) -> tuple[int, int, Cells]:
        """The first one copies the arrays of all."""
        return self._wholes(pieces, range(self.size), [0])

    def _wholes(self, pieces: int, owners: Sequence[int], readers: Sequence[int]) -> tuple[int, int, Cells]:
        from spmd_grid.exchange.transfer.transfer import Receive, Send
        from spmd_grid.grid.box import Box

        whole = Box((0,), (pieces,))
        sends = [Send(reader, whole) for reader in readers if self.rank in owners]
        receives = [Receive(owner, whole, whole.shift((i * pieces,))) for i, owner in enumerate(owners)]
        mine = receives if self.rank in readers else []
        copies = self._copies(1, [(pieces,) if i in owners else None for i in range(self.size)], sends, mine)
        expected = [[(owner, i)] for owner in owners for i in range(pieces)] if mine else []
        return copies._wholes(self._rings, (WORD,), (WORD,)), pieces, expected

    def _exchange(self, pieces: int) -> tuple[int, int, Cells]:
        """Everyone has another part of its array for each member."""
        from spmd_grid.exchange.transfer.transfer import Receive, Send
        from spmd_grid.grid.box import Box

        parts = [Box((i * pieces,), ((i + 1) * pieces,)) for i in range(self.size)]
        sends = [Send(i, part) for i, part in enumerate(parts)]
        receives = [Receive(i, parts[self.rank], part) for i, part in enumerate(parts)]
        n = self.size * pieces
        copies = self._copies(self.size - 1, [(n,)] * self.size, sends, receives, frozenset({(pieces,)}))
        expected = [[(owner, self.rank * pieces + i)] for owner in range(self.size) for i in range(pieces)]
        return copies._parts(self._rings, (WORD,), (WORD,)), n, expected

    def _copies(self, areas: int, shapes: Sequence, sends: Sequence, receives: Sequence, parts=frozenset()) -> Any:
        from spmd_grid.ops.movement import relayed_copies as module

        dtype = np.dtype(np.int64)
        facts = [
            SimpleNamespace(shape=shape, dtype=None if shape is None else dtype, nbytes=0, out_shape=None)
            for shape in shapes
        ]
        transfer = SimpleNamespace(rank=self.rank, size=self.size, sends=sends, receives=receives, parts=parts)
        return _small(module.RelayedCopies, module, self._names(areas))(self._call, facts, transfer)

    def _reduce(self, pieces: int) -> tuple[int, int, Cells]:
        """All have the sum of all arrays, of which everyone folds a slice."""
        n = pieces * self.size
        return self._alike(self.size, n).of_slices(), n, self._sums(range(n))

    def _reduce_whole(self, pieces: int) -> tuple[int, int, Cells]:
        """All fold all arrays."""
        return self._alike(1, pieces).of_wholes(), pieces, self._sums(range(pieces))

    def _reduce_scatter(self, pieces: int) -> tuple[int, int, Cells]:
        """Everyone folds a block."""
        from spmd_grid.grid.box import Box

        n, first = pieces * self.size, pieces * self.rank
        blocks = [Box((i,), (i + pieces,)) for i in range(0, n, pieces)]
        words = self._folding(self.size - 1, n, blocks)._of_blocks(self._rings, blocks)
        return words, n, self._sums(range(first, first + pieces))

    def _sums(self, cells: Sequence[int]) -> Cells:
        return [[(rank, i) for rank in range(self.size)] for i in cells]

    def _alike(self, areas: int, n: int) -> Any:
        from spmd_grid.ops.reduction import relayed_alike as module

        kind = _small(module._Alike, module, self._names_to_fold(areas))
        return kind(self._rings, range(self.size), WORD, n * WORD, 1, None)

    def _folding(self, areas: int, n: int, blocks: Sequence) -> Any:
        from spmd_grid.ops.reduction import relayed_folding as module

        kind = _small(module.RelayedFolding, module, self._names_to_fold(areas), {"_fold": 1})
        reduction = SimpleNamespace(is_average=False, name="sum")
        return kind(self._call, (n,), np.dtype(np.int64), reduction, None, blocks, None)

    def _names_to_fold(self, areas: int) -> dict[str, object]:
        from spmd_grid.ops.reduction import relayed_alike as module

        names = self._names(areas)
        cut = reread_function(module.cut_into_areas, vars(module) | names)
        return names | {"cut_into_areas": cut}

    @property
    def _call(self) -> SimpleNamespace:
        return SimpleNamespace(comm=SimpleNamespace(size=self.size, rank=self.rank), path=None, fingerprint=b"")

    def _names(self, areas: int) -> dict[str, object]:
        """The objects that tables are made with: slots of a word for each area, and the recorder's memory."""
        from spmd_grid import kernels
        from spmd_grid.exchange.agreement import relay

        slot_bytes = areas * WORD
        ring_bytes = self._slots * slot_bytes
        sizes = {"SLOT_BYTES": slot_bytes, "RING_BYTES": ring_bytes, "_SLOTS": self._slots, "AREA_ALIGNMENT": WORD}
        slots = _small(relay.Slots, relay, sizes)
        seen = SimpleNamespace(
            address_of=self._into_memory,
            build_table=kernels.build_table,
            copy_address=1,
            streams_for=kernels.streams_for,
        )
        program = _small(relay.RelayProgram, relay, sizes | {"kernels": seen})
        return sizes | {"Slots": slots, "RelayProgram": lambda *args, **options: program(*args, **options).address}

    def _into_memory(self, array: np.ndarray) -> int:
        words = array.reshape(-1).view(np.int64).tolist()
        address = self.recorder.allocate(len(words) + 1)
        for i, word in enumerate(words):
            self.recorder.words[address + i * WORD] = word
        return address


def _small(kind: type, module: ModuleType, words: dict[str, object], others: dict[str, object] | None = None) -> type:
    """The class with other names for its methods."""
    names, methods = {**vars(module), **words}, dict(others or {})
    for name, value in vars(kind).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            methods[name] = reread_function(value, names)
        elif isinstance(value, classmethod):
            methods[name] = classmethod(reread_function(value.__func__, names))
    return type(kind.__name__, (kind,), methods)


def _cell(rank: int, number: int, i: int) -> int:
    return 1000 * number + 100 * rank + i + 1
