"""The lifeline of one process by itself, with a side channel of our own: when it ends the job, and when it may go."""

import threading

import pytest
from support.jobs import of_mpi
from support.lifelines import SideChannel, watching

PATIENCE = 10  # seconds, for what takes a tenth of one


class Waiting:
    """Looks hopeless the first times it is looked at."""

    for_message = False

    def __init__(self, hopeless_looks):
        self._left, self.looked_again = hopeless_looks, threading.Event()

    def ended_partner(self, departed):
        self._left -= 1
        if self._left < 0:
            self.looked_again.set()
        return 1 if self._left >= 0 else None

    def awaited(self):
        return ()


def test_a_wait_that_looks_hopeless_once_is_no_reason_to_end_the_job(capfd):
    """The message is on its way: it comes between the first look and the second."""
    channel, waiting = SideChannel(), Waiting(1)
    with watching(channel) as lifeline:
        lifeline.waiting = waiting
        assert waiting.looked_again.wait(PATIENCE)
        assert not channel.aborted.is_set()
    assert not capfd.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # how this channel aborts
def test_a_wait_that_stays_hopeless_ends_the_job(capfd):
    channel = SideChannel()
    with watching(channel) as lifeline:
        lifeline.waiting = Waiting(2)
        assert channel.aborted.wait(PATIENCE)
    said = capfd.readouterr().err
    assert said.startswith("spmd_grid: rank 1 (1,) of 2 ended") and "while rank 0 waits for it" in said


def test_a_process_goes_when_its_departure_is_on_its_way():
    """Others that wait for it would not hear of its end if it left before."""
    channel = SideChannel(looks_until_sent=4)
    with watching(channel):
        pass
    assert len(channel.posted) == 1 and channel.is_sent and channel.looks == 4


def test_a_cut_in_the_middle_of_looking_for_news_is_told():
    """An exception left the operation between taking the lock of the side channel and giving it back."""
    channel = SideChannel()
    with watching(channel) as lifeline:
        lifeline._collecting.acquire()
        lifeline.cut_off("all_reduce was cut off")
        messages = [of_mpi("liveness.messages").message_of(data, 0, 2) for data in channel.posted]
        assert [message.text for message in messages] == ["all_reduce was cut off"]
        assert not lifeline._collecting._is_owned()
        assert lifeline._process.gate.text == "all_reduce was cut off"


@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_ranks_that_are_cut_off_at_once_the_first_says_why(rank):
    messages = of_mpi("liveness.messages")
    answers = messages.CutOff("theirs"), messages.CutOffAnswer()
    channel = SideChannel(answers=[(1 - rank, messages.bytes_of(answer)) for answer in answers])
    with watching(channel, rank) as found:
        found.departed.clear()
        found.cut_off("mine")
        assert found._process.gate.text == ("mine" if rank == 0 else "theirs")
        assert (
            messages.message_of(channel.posted[-1], rank, 2) == messages.CutOffAnswer()
        )  # the other one gets its answer
        found.departed[1 - rank] = of_mpi("liveness.departure").Departure("the other")
