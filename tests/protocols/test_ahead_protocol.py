"""Runs without a meeting, within a node, on a weak memory: all executions, as the code is and weakened."""

import pytest
from ahead_model import recorded_runs
from support.protocols.weak_memory import RELEASE, WAIT, Machine
from support.protocols.weakenings import READS, noticed, weakenings, without

NEEDED = {("_post", RELEASE, "weak"), ("_wait", WAIT, "weak"), ("_wait", WAIT, "left out")}
RUNS = [(2, 2, (0, 0, 0, 0)), (2, 2, (0, 1, 1, 0)), (2, 4, (0, 0, 0, 0, 0, 0)), (3, 2, (0, 0, 1))]


@pytest.mark.parametrize("run", RUNS)
def test_all_read_what_was_posted_in_this_run(run):
    assert Machine(recorded_runs(*run), races=True).search().violation is None


def test_every_order_and_every_wait_is_needed():
    programs = [recorded_runs(*run) for run in RUNS[:2]]
    found = {weaker: noticed(programs, without(*weaker)) for weaker in weakenings(programs)}
    assert found == dict.fromkeys(NEEDED, READS), "the code has other steps than are listed, or some are not needed"
