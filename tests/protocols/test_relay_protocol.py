"""Relays of 2 and 3 members on a weak memory: every execution of a few rounds, as the code is and with it weakened.

Rings are used again within a relay, from its fifth step on, and by the next relay; all members copy and fold exactly
what this relay's step has packed, whatever the memory's order (see ``weak_memory``).
"""

import pytest
from relay_model import recorded_relays
from support.protocols.weak_memory import DRAIN, RELEASE, WAIT, Machine
from support.protocols.weakenings import READS, noticed, weakenings, without

from spmd_grid.exchange.agreement.relay import RING_BYTES, SLOT_BYTES

SLOTS = RING_BYTES // SLOT_BYTES
WHATS = "gather", "broadcast", "collect", "exchange", "reduce", "reduce_whole", "reduce_scatter"

# What each order and each wait of a relay is there for: without it, some process reads what it must not.
NEEDED = {
    ("_run", RELEASE, "weak"),
    ("_run", WAIT, "weak"),
    ("_run", WAIT, "left out"),
    ("copy_rows", DRAIN, "left out"),
}


# Some of a relay's orders are those of copies that all protocols share, and of the meeting before it.
OF_MEETINGS = {"meet", "_collect"}


def alike(size):
    """A relay of each kind that goes round the ring, and short ones that use its first slots again."""
    return [recorded_relays(size, rounds) for what in WHATS for rounds in (((what, 6),), ((what, 2),) * 2)]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("what", WHATS)
def test_relays_in_all_executions(what, size):
    assert Machine(recorded_relays(size, ((what, 7),)), races=True).search().violation is None
    for after in WHATS:
        rounds = (what, 5), (after, 2)
        assert Machine(recorded_relays(size, rounds), races=True).search().violation is None, rounds


def test_a_short_relay_branching_at_every_step():
    assert Machine(recorded_relays(2, (("exchange", 2),)), races=True).search(every_step=True).violation is None


@pytest.mark.parametrize("size", [2, 3])
def test_every_order_and_every_wait_is_needed(size):
    places = [weaker for weaker in weakenings(alike(size)) if weaker[0] not in OF_MEETINGS]
    found = {weaker: noticed(alike(size), without(*weaker)) for weaker in places}
    assert found == dict.fromkeys(NEEDED, READS), "the code has other steps than are listed, or some are not needed"


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("what", WHATS)
def test_a_ring_needs_all_its_slots(what, size):
    """With one less, cells are packed where others still read, in some execution."""
    with pytest.raises(AssertionError):
        assert Machine(recorded_relays(size, ((what, 7),), SLOTS - 1)).search().violation is None
