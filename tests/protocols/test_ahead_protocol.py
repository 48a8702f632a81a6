"""Runs without a meeting, within a node, on a weak memory: all executions, as the code is and weakened."""

import pytest
from ahead_model import IN_COPIES, IN_LINES, IN_PIECES, IN_PLACE, PASSED_ON, recorded_runs
from support.protocols.weak_memory import RELEASE, WAIT, Machine
from support.protocols.weakenings import READS, RULES, noticed, weakenings, without

LINES = {("_post", RELEASE, "weak"): READS, ("_wait", WAIT, "weak"): READS, ("_wait", WAIT, "left out"): READS}
# Arrays and memory that others read are written again only once they have.
LENT = {("say_done", RELEASE, "weak"): READS, ("end_ahead", WAIT, "weak"): RULES}
LENT |= {("end_ahead", WAIT, "left out"): READS}
# So are places of copies.
COPIED = {("say_done", RELEASE, "weak"): READS, ("_until_read", WAIT, "weak"): RULES}
COPIED |= {("_until_read", WAIT, "left out"): READS}
FOUND = {("_reaches", WAIT, "weak"): READS, ("_reaches", WAIT, "left out"): READS}
NEEDED = {
    IN_LINES: LINES,
    PASSED_ON: LINES | {("_pass_on", RELEASE, "weak"): READS},
    IN_PLACE: LINES | LENT | FOUND,
    IN_COPIES: LINES | COPIED | FOUND,
    IN_PIECES: LINES | LENT | FOUND | {("_step", RELEASE, "weak"): READS},
}
RUNS = [(2, 2, (0, 0, 0, 0)), (2, 2, (0, 1, 1, 0)), (2, 4, (0, 0, 0, 0, 0, 0)), (3, 2, (0, 0, 1))]


@pytest.mark.parametrize("way", NEEDED)
@pytest.mark.parametrize("run", RUNS)
def test_all_read_what_was_posted_in_this_run(run, way):
    assert Machine(recorded_runs(*run, way), races=True).search().violation is None


@pytest.mark.parametrize("way", NEEDED)
def test_every_order_and_every_wait_is_needed(way):
    programs = [recorded_runs(*run, way) for run in RUNS[:2]]
    found = {weaker: noticed(programs, without(*weaker)) for weaker in weakenings(programs)}
    assert found == NEEDED[way], "the code has other steps than are listed, or some are not needed"
