"""Neighbours that could read one another's arrays try now and then whether staging is quicker, and do what is."""

from collections import defaultdict

import numpy as np
import pytest
from support.protocols.recorded import WORD, reread

import spmd_grid as sg
from spmd_grid.exchange.paths import READ, STAGED
from spmd_grid.halo.plan import trial
from spmd_grid.kernels.protocol import slots as at

TRIES = at.TRY_BLOCK * at.TRY_BLOCKS
LENDS, STAGES = 0, 1


class Member:
    """One process whose exchanges take, until the next one begins, what the test says, by a clock of its own."""

    def __init__(self, usual=LENDS):
        from spmd_grid.kernels.protocol import clock, course

        self.memory, self.now, self.epoch = defaultdict(int), 7, 0
        words = {"load": self._load, "store": self._store, "read_clock": self._read_clock}
        words["nanoseconds"] = reread(clock, words)["nanoseconds"]
        self._stages = reread(course, words)["_stages"]
        self._store(0, at.STAGES_ALL, usual)
        self._store(0, at.TRIED_FROM, 1)
        for i in range(4):
            self._store(0, at.TRY_LEAST + i, at.NO_TIME)

    def update(self, costs):
        """The way of an exchange that takes the nanoseconds that ``costs`` says for it, before the next one."""
        self.epoch += 1
        way = self._stages(0, self.epoch)
        self.now += costs[way]
        return way

    def _load(self, address, slot=0):
        return self.memory[address + WORD * slot]

    def _store(self, address, slot, value):
        self.memory[address + WORD * slot] = value

    def _read_clock(self, clock):
        self._store(clock, 0, self.now // 10**9)
        self._store(clock, 1, self.now % 10**9)


def ways_of(member, costs, turns):
    return [member.update(costs(turn)) for turn in range(turns)]


@pytest.mark.parametrize("usual", [LENDS, STAGES])
@pytest.mark.parametrize("quicker", [LENDS, STAGES])
def test_takes_what_is_quicker_after_tries(usual, quicker):
    costs = (800, 10**9 + 100) if quicker == LENDS else (10**9 + 100, 800)
    found = ways_of(Member(usual), lambda turn: costs, at.TRY_PAUSE)
    blocks = [LENDS, STAGES] * (at.TRY_BLOCKS // 2)
    assert found[:TRIES] == [way for way in blocks for _ in range(at.TRY_BLOCK)]
    assert found[TRIES:] == [quicker] * (at.TRY_PAUSE - TRIES)


@pytest.mark.parametrize("usual", [LENDS, STAGES])
def test_keeps_its_way_unless_the_other_one_is_clearly_quicker(usual):
    saves = 1000 // at.CLEARLY
    for other, expected in ((1000 - saves, usual), (1000 - saves - 1, 1 - usual)):
        costs = (1000, other) if usual == LENDS else (other, 1000)
        assert ways_of(Member(usual), lambda turn, costs=costs: costs, TRIES + 1)[-1] == expected


def test_what_neighbours_do_after_another_way_does_not_count():
    """The first exchange of each block: the caches are as the other way has left them."""
    found = ways_of(Member(), lambda turn: (1, 1) if turn % at.TRY_BLOCK == 0 else (1000, 900), TRIES + 1)
    assert found[-1] == STAGES


def test_exchanges_that_waited_do_not_count():
    """A program that does something else now and then, and one exchange that seemed quick."""
    for quicker, costs in ((STAGES, (1000, 900)), (LENDS, (900, 1000))):

        def cost(turn, costs=costs, quicker=quicker):
            odd = 1 if turn == at.TRY_BLOCK * (2 - quicker) - 1 else 10**7 * (turn % 3 == 0)
            return [each + odd if odd > 1 else odd or each for each in costs]

        assert ways_of(Member(), cost, TRIES + 1)[-1] == quicker


def test_tries_again_after_a_while():
    member = Member()
    assert ways_of(member, lambda turn: (1000, 500), TRIES + at.TRY_PAUSE)[TRIES:] == [STAGES] * at.TRY_PAUSE
    again = ways_of(member, lambda turn: (500, 1000), TRIES + 1)
    assert again[: 2 * at.TRY_BLOCK] == [LENDS] * at.TRY_BLOCK + [STAGES] * at.TRY_BLOCK and again[-1] == LENDS


def test_tries_nothing_unless_told():
    member = Member()
    member._store(0, at.TRIED_FROM, 0)
    assert ways_of(member, lambda turn: (1000, 1), 2 * TRIES) == [LENDS] * 2 * TRIES


def test_all_try_the_same_way_at_a_time():
    """Also where their usual ways differ."""
    lends, stages = (ways_of(Member(usual), lambda turn: (10, 10), TRIES + 1) for usual in (LENDS, STAGES))
    assert lends[:TRIES] == stages[:TRIES] and (lends[-1], stages[-1]) == (LENDS, STAGES)


# -- the same in exchanges -----------------------------------------------------------------------------------------


def body(usual, periodic):
    """Checks halos on ranks that try both ways, each with a usual way of its own; whether each turn has lent arrays."""
    grid = sg.init_grid((-1,))
    n, me, lent = grid.size, grid.rank, []
    sharding, shape = sg.Sharding(grid, [[0], []], halo_sizes=[2, 2]), (8 * n, 5)
    fields = [sg.zeros(shape, sharding, grid) for _ in range(2)]
    with sg.HaloExchange(grid, sharding, shape, "f8", periodic=periodic, n_fields=2, path="read") as halo:
        channel = halo._plan.channel
        channel.stage_all(usual[me % len(usual)], True)
        for turn in range(TRIES + 3):
            reads = channel.reads
            assert ("read in member" in halo.describe()) == reads
            for number, field in enumerate(fields):
                field.local[...] = 100 * turn + 10 * me + number
                field.local[:2], field.local[-2:] = -1, -1
            halo.update(*fields)
            for number, field in enumerate(fields):
                for cells, other in ((field.local[:2], me - 1), (field.local[-2:], me + 1)):
                    exists = periodic or 0 <= other < n
                    wanted = 100 * turn + 10 * (other % n) + number if exists else -1
                    assert np.array_equal(cells, np.full((2, 5), wanted)), (turn, number)
            lent.append(bool(channel._state.words[at.LENDS]))
        assert lent[TRIES:] == [channel.reads] * 3 and channel._state.words[at.TRIED_FROM] > TRIES
    return lent[:TRIES]


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize(("usual", "periodic"), [([0], True), ([1], True), ([0, 1], True), ([1, 0], False)])
def test_halos_are_right_while_both_ways_are_tried(spmd, n, usual, periodic):
    for lent in spmd(n, body, usual, periodic):
        assert lent == [turn // at.TRY_BLOCK % 2 == 0 for turn in range(TRIES)]


# -- what the trial leaves to updates ----------------------------------------------------------------------------------


class Tried:
    """A channel of which only the choice is seen."""

    chosen = staged = None

    def choose(self, mode):
        self.chosen = mode

    def stage_all(self, stages, tries):
        self.staged = stages, tries


@pytest.mark.parametrize(
    ("by_size", "read", "staged", "reads_by_size", "expected"),
    [
        (10, 12, 10, False, (READ, True, True)),  # about as quick: staged as by size, and tried
        (10, 8, 10, False, (READ, False, True)),
        (10, 45, 10, False, (trial.BY_SIZE, False, False)),  # clear
        (30, 45, 50, True, (trial.BY_SIZE, False, True)),
        (30, 25, 50, True, (READ, False, True)),
        (30, 30, 20, True, (trial.BY_SIZE, True, True)),
        (90, 90, 20, True, (STAGED, False, False)),
    ],
)
def test_updates_try_what_the_trial_has_not_made_clear(by_size, read, staged, reads_by_size, expected):
    channel = Tried()
    trial._choose_in_memory(channel, {trial.BY_SIZE: by_size, READ: read, STAGED: staged}, reads_by_size)
    assert (channel.chosen, *channel.staged) == expected


@pytest.mark.parametrize(("cells", "rounds"), [(100, 7), (2**17, 7), (2**18, 3), (2**21, 1)])
def test_a_trial_carries_a_bounded_number_of_bytes(spmd, monkeypatch, cells, rounds):
    """Of a long face each way carries 7 MiB in the rounds that are timed, or makes one round."""
    asked = []
    monkeypatch.setattr(trial, "_seconds_of", lambda channel, ways, n: asked.append(n) or dict.fromkeys(ways, 1.0))

    def body():
        grid = sg.init_grid((2,))
        halo = sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), (4, cells), "f8")
        trial.try_ways(halo._plan.channel)

    spmd(2, body)
    assert set(asked) == {rounds}
