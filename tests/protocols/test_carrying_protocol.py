"""Lines that cross between nodes, on a weak memory: every execution of three meetings, as the code is and weakened."""

from carrying_model import recorded_meetings
from support.protocols.weak_memory import RELEASE, WAIT, Machine
from support.protocols.weakenings import NOTHING, READS, merged, noticed, weakenings, without

NEEDED = {
    ("meet", RELEASE, "weak"),
    ("carry", WAIT, "weak"),
    ("carry", WAIT, "left out"),
    ("_unpack", RELEASE, "weak"),
    ("_wait_for", WAIT, "weak"),  # of meet
    ("_wait_for", WAIT, "left out"),
}


def test_both_members_read_this_meeting_in_all_executions():
    for rounds in (1, 2, 3):
        assert Machine(recorded_meetings(rounds), races=True).search().violation is None


def test_every_order_and_every_wait_is_needed():
    programs = [recorded_meetings(3)]
    found = {weaker: noticed(programs, without(*weaker)) for weaker in weakenings(programs)}
    assert found == dict.fromkeys(NEEDED, READS), "the code has other steps than are listed, or some are not needed"


def test_one_mirror_would_be_enough():
    """A carrier writes it once all of its node have posted, hence have read it.  There are two, since lines are two."""
    for name in ("mirror", "array in mirror"):
        assert noticed([recorded_meetings(3)], merged(name)) == NOTHING
