"""Limits of time: kept without a measurement, and where they are missed judged by what the machine can do."""

import subprocess
import sys
import time

import pytest
from support import patience
from support.patience import at_growing_scales, communicate, in_time, run_in_time, until


@pytest.fixture
def machine(monkeypatch):
    """``machine(factor)``: from now on it counts as slower by that factor; the numbers of measurements since."""

    def becomes(factor):
        counted = []
        monkeypatch.setattr(patience, "slowdown", lambda: counted.append(factor) or factor)
        return counted

    return becomes


def test_a_measurement():
    assert patience.slowdown() >= 1


def test_limits_grow_with_the_machine(machine):
    counted = machine(3.0)
    assert in_time(1.9, 2) and not counted
    assert in_time(5.9, 2) and not in_time(6.1, 2) and len(counted) == 2
    machine(1.0)
    assert not in_time(2.1, 2)


def test_waiting_for_an_event(machine):
    machine(1.0)
    came = iter([False, False, True])
    assert until(lambda: next(came), 30)
    assert not until(lambda: False, 0.05)


def test_scales(machine):
    tried = []

    @at_growing_scales(1, 5, 25)
    def attempt(enough, scale):
        tried.append(scale)
        assert scale >= enough
        return scale

    machine(1.0)
    with pytest.raises(AssertionError):  # on a quiet machine the first one decides
        attempt(5)
    assert tried == [1]
    machine(9.0)
    assert attempt(5) == 5 and attempt(1) == 1 and tried[1:] == [1, 5, 1]
    with pytest.raises(AssertionError):
        attempt(99)


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_process_that_hangs_is_ended(machine, factor):
    machine(factor)
    began = time.monotonic()
    with (
        pytest.raises(subprocess.TimeoutExpired),
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE) as process,
    ):
        communicate(process, limit=0.3)
    assert process.returncode < 0 and 0.3 * factor <= time.monotonic() - began < 50


def test_a_process_that_is_slow_is_waited_for(machine):
    machine(100.0)
    program = "import sys, time\ntime.sleep(0.5)\nprint(sys.stdin.read())\nsys.exit(3)"
    done = run_in_time([sys.executable, "-c", program], input="heard", limit=0.1)
    assert (done.returncode, done.stdout, done.stderr) == (3, "heard\n", "")
