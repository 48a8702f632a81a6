"""Two members of a node that meet a member of another one: the first carries lines, and writes the mirror of the third.

It carries those of both, or its own alone.

``meet`` and ``carry`` are those of the package (see ``meeting_model``).  MPI is said anew: a message of the other node
has come once this node's own has been sent.
"""

from __future__ import annotations

from functools import cache

from meeting_model import LINE, Member, _cell, _frame_word
from support.protocols.recorded import WORD, Recorder, reread
from support.protocols.weak_memory import WAIT, Step

_FAR = 2  # the number of the member of the other node


@cache
def recorded_meetings(rounds: int, carried: int = 2) -> tuple[tuple[Step, ...], ...]:
    """The programs that both members of the node run in a number of meetings; ``carried``: lines that are sent."""
    recorder = Recorder(2)
    members = [_NearMember(recorder, rank) for rank in range(2)]
    mirror = recorder.allocate(members[0].line_bytes * 2 // WORD, "mirror")
    for member in members:
        member.meets_beyond(members, mirror, carried)

    def live(rank: int) -> None:
        for number in range(1, rounds + 1):
            members[rank].swap_all(number)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class _NearMember(Member):
    """A member of the node; the first has a carrier's words."""

    def __init__(self, recorder: Recorder, rank: int):
        from spmd_grid.kernels.protocol import carrying, meeting, sleeping, waits

        super().__init__(recorder, rank)
        at = self.at
        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "move")} | {"at": at}
        words["wake"] = reread(sleeping, words)["wake"]
        mpi = {"load_acquire": self._look, "post_message": self._post, "complete_messages": self._complete}
        self._carry = reread(carrying, words | mpi | {"_HEAD_BYTES": WORD * at.HEAD_WORDS})["carry"]
        words |= {"wait_for": self._wait_for, "_HEADER_WORDS": at.FRAME_WORDS // 2}
        words["announce"] = reread(waits, words)["announce"]
        self._meet = reread(meeting, words)["meet"]
        self.carrier = 0

    def meets_beyond(self, members: list[_NearMember], mirror: int, carried: int) -> None:
        at, recorder = self.at, self.recorder
        self.carried = carried
        self.size, self.mirror = 3, mirror
        self.meets([*members, members[0]])  # the third block is set here
        self._set(at.BLOCKS + _FAR, mirror)
        for turn in range(2):
            line = mirror + turn * self.line_bytes
            for i in range(at.LINE_ARRAY // WORD):
                recorder.names[line + i * WORD] = f"mirror {_FAR}.{turn}[{i}]"
            recorder.names[line + at.LINE_ARRAY] = f"array in mirror {_FAR}.{turn}"
        self._set(at.FLAG, recorder.allocate(1))
        if self.rank == 0:
            blocks, mirrors, row = (recorder.allocate(n) for n in (2, 1, at.NODE_WORDS))
            self.inbox, self.carrier = recorder.allocate(at.HEAD_WORDS + 8), recorder.allocate(at.CARRIER_WORDS)
            recorder.words[blocks], recorder.words[blocks + WORD] = (member.block for member in members)
            recorder.words[mirrors] = mirror
            for slot, value in ((at.NODE_INBOX, self.inbox), (at.NODE_MEMBERS, 1), (at.NODE_MIRRORS, mirrors)):
                recorder.words[row + slot * WORD] = value
            outgoing = recorder.allocate(2 * at.HEAD_WORDS + 16)
            for slot, value in (
                (at.NEAR, carried),
                (at.NEAR_BLOCKS, blocks),
                (at.OUTGOING, outgoing),
                (at.NODES, 1),
                (at.NODE_ROWS, row),
            ):
                recorder.words[self.carrier + slot * WORD] = value
            self.outgoing = outgoing

    # -- waits and messages ----------------------------------------------------------------------------------------

    def _look(self, address: int) -> int:
        """A look at a near line, which counts as a wait once the line is there."""
        value = self.recorder.words[address]
        if value >= self._get(self.at.EPOCH):
            self.recorder._note(WAIT, address, value)
        return value

    def _wait_for(self, state: int, address: int, value: int, member: int) -> int:
        while self.carrier and not self._carry(state, self.carrier):
            self.recorder._pass_on()
        return self.recorder.wait_for(state, address, value, member)

    def _post(self, function: int, buffer: int, *rest: int) -> int:
        """Sends what near members have posted in this meeting, and nothing else."""
        if buffer == self.outgoing:
            at, words, epoch = self.at, self.recorder.words, self._get(self.at.EPOCH)
            for i in range(self.carried):
                head = buffer + i * WORD * at.HEAD_WORDS
                frame = [words[head + WORD * (at.HEAD_FRAME + word)] for word in range(at.FRAME_WORDS)]
                assert frame == [_frame_word(i, epoch, word) for word in range(at.FRAME_WORDS)]
                assert words[buffer + self.carried * WORD * at.HEAD_WORDS + i * at.BODY_ALIGNED] == _cell(i, epoch, 0)
        return 0

    def _complete(self, function: int, count: int, requests: int, flag: int, statuses: int) -> int:
        """Completes the message of the other node: the line of its one member, and the word that this brings."""
        at, words, epoch = self.at, self.recorder.words, self._get(self.at.EPOCH)
        words[self.inbox + WORD * at.HEAD_FLAGS] = WORD * at.BODY_BYTES
        for word in range(at.FRAME_WORDS):
            words[self.inbox + WORD * (at.HEAD_FRAME + word)] = _frame_word(_FAR, epoch, word)
        words[self.inbox + WORD * at.HEAD_WORDS] = _cell(_FAR, epoch, 0)
        words[flag] = 1
        return 0

    def swap_all(self, number: int) -> None:
        """A meeting to which all bring a word in their line, which the members of this node read."""
        frames = self.post(LINE, _cell(self.rank, number, 0))
        for i in range(self.size):
            if i != self.rank:
                address = frames.offsets[i] + (self.mirror if i == _FAR else 0)
                assert self.recorder.load(address) == _cell(i, number, 0)
