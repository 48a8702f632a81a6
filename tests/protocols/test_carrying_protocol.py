"""Lines that cross between nodes, on a weak memory: every execution of three meetings, as the code is and weakened."""

import pytest
from carrying_model import recorded_meetings
from support.protocols.weak_memory import RELEASE, WAIT, Machine
from support.protocols.weakenings import NOTHING, READS, merged, noticed, weakenings, without

NEEDED = {
    ("meet", RELEASE, "weak"),
    ("_unpack", RELEASE, "weak"),
    ("_wait_for", WAIT, "weak"),  # of meet
    ("_wait_for", WAIT, "left out"),
}
FOR_OTHERS = ("carry", WAIT, "weak"), ("carry", WAIT, "left out")  # not for a member's own line


@pytest.mark.parametrize("carried", [2, 1])
def test_both_members_read_this_meeting_in_all_executions(carried):
    for rounds in (1, 2, 3):
        assert Machine(recorded_meetings(rounds, carried), races=True).search().violation is None


@pytest.mark.parametrize("carried", [2, 1])
def test_every_order_and_every_wait_is_needed(carried):
    programs = [recorded_meetings(3, carried)]
    found = {weaker: noticed(programs, without(*weaker)) for weaker in weakenings(programs)}
    needed = dict.fromkeys(NEEDED, READS) | dict.fromkeys(FOR_OTHERS, READS if carried > 1 else NOTHING)
    assert found == needed, "the code has other steps than are listed, or some are not needed"


def test_one_mirror_would_be_enough():
    """A carrier writes it once all of its node have posted, hence have read it.  There are two, since lines are two."""
    for name in ("mirror", "array in mirror"):
        assert noticed([recorded_meetings(3)], merged(name)) == NOTHING


def test_two_mirrors_are_needed_where_a_member_carries_its_own_line():
    for name in ("mirror", "array in mirror"):
        assert noticed([recorded_meetings(3, carried=1)], merged(name)) == READS
