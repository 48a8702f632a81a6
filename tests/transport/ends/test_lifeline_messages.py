"""Messages between lifelines: what is sent comes back equal, and other bytes are refused, and run nothing."""

import json
import pickle
import random
from typing import get_args

import numpy as np
import pytest
from support.jobs import of_mpi
from support.lifelines import SideChannel, watching

from spmd_grid import errors
from spmd_grid.watch.hang_report import RankState
from spmd_grid.watch.recorder import OperationRecord

TEXTS = "", "rank 3 (1, 0)", "é\n\0 \ud800 😀", '"[]"', "x" * 300


def number(choose):
    return choose.choice([0, 1, -1, choose.randrange(1 << 20), 1 << 62, -(1 << 63), np.int64(choose.randrange(99))])


def group(choose):
    return tuple(sorted(choose.sample(range(20), choose.randrange(1, 6))))


def counts(choose):
    return {each: [number(choose) for _ in each] for each in [group(choose) for _ in range(choose.randrange(4))]}


def departure(choose):
    wires = [(group(choose), choose.randrange(4)) for _ in range(3)]
    return of_mpi("liveness.departure").Departure(
        choose.choice(TEXTS),
        {group(choose): number(choose) for _ in range(3)},
        *[counts(choose) for _ in range(3)],
        *[{wire: number(choose) for wire in wires} for _ in range(2)],
        {group(choose) for _ in range(choose.randrange(3))},
    )


def state(choose):
    def seconds():
        return choose.choice([0.0, 0.1, choose.random() * 1e6, np.float64(1 / 3)])

    texts = choose.choice(TEXTS), choose.choice(TEXTS)
    records = [OperationRecord(number(choose), 1, seconds(), seconds(), *texts) for _ in range(choose.randrange(3))]
    flags = [choose.random() < 0.5 for _ in range(3)]
    return RankState(texts[0], seconds(), tuple(records), texts[1], flags[0], texts[1], flags[1], flags[2])


def messages_of_all_classes(choose):
    messages, standstill = of_mpi("liveness.messages"), of_mpi("liveness.standstill")
    hosts, watch = of_mpi("liveness.host_watch"), of_mpi("liveness.hang_watch")
    links = [standstill.Link(number(choose), number(choose), choose.choice(TEXTS), choose.random() < 0.5)] * 2
    return [
        departure(choose),
        messages.CutOff(choose.choice(TEXTS)),
        messages.CutOff(choose.choice(TEXTS), choose.choice([*errors.NAMED_ERRORS.values()])),
        messages.CutOffAnswer(),
        hosts.HostCall(),
        hosts.HostAnswer(),
        watch.Report(number(choose), {rank: state(choose) for rank in range(choose.randrange(4))}, True),
        standstill.Question(),
        standstill.Answer(number(choose), departure(choose)),
        standstill.Chain(tuple(links), number(choose)),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_sent_comes_back_equal(seed):
    messages = of_mpi("liveness.messages")
    sent = messages_of_all_classes(random.Random(seed))
    assert {type(each) for each in sent} == set(get_args(messages.Message))
    for each in sent:
        found = messages.message_of(messages.bytes_of(each), 1, 20)
        assert type(found) is type(each) and found == each


def test_an_error_is_named_by_the_table_alone():
    messages = of_mpi("liveness.messages")
    own = type("OwnError", (errors.SpmdError,), {})
    for kind in (own, errors.RankEndedError, ValueError):  # the second needs more than a text
        with pytest.raises(TypeError, match="cannot be told"):
            messages.bytes_of(messages.CutOff("why", kind))
    for name in ("ValueError", "os.system", "RankEndedError", "__all__", "np"):
        with pytest.raises(errors.TransportError, match="no message"):
            messages.message_of(json.dumps(["CutOff", "why", name]).encode(), 1, 20)
    for kind in errors.NAMED_ERRORS.values():
        assert "why" in str(kind("why"))


class Runs:
    """Prints where it is unpickled."""

    def __reduce__(self):
        return print, ("it ran",)


REFUSED = {
    "a pickle": pickle.dumps(Runs()),
    "nothing": b"",
    "no list": b"{}",
    "an empty list": b"[]",
    "an unknown class": b'["Popen","ls"]',
    "a class that is a part of others": b'["Link",1,1,"",true]',
    "a list for a name": b'[["CutOff"],"why","CutOffError"]',
    "a field too few": b'["CutOff","why"]',
    "a field too many": b'["CutOffAnswer",1]',
    "a number for a text": b'["CutOff",1,"CutOffError"]',
    "a list for a class": b'["CutOff","why",["CutOffError"]]',
    "a truth for a number": b'["Chain",[[1,true,"",true]],1]',
    "a fraction for a number": b'["Chain",[[1,1,"",true]],1.0]',
    "a text for a list": b'["Chain","links",1]',
    "a link too short": b'["Chain",[[1,1,""]],1]',
    "a chain without links": b'["Chain",[],1]',
    "pairs that are none": b'["Report",1,[[1]],true,false]',
    "a dict for pairs": b'["Report",1,{},true,false]',
    "a text in a group": b'["Departure","",[[["0",1,1],1]],[],[],[],[],[],[]]',
    "a truth in a group": b'["Departure","",[[[true,1,1],1]],[],[],[],[],[],[]]',
    "half a run": b'["Departure","",[[[0,1],1]],[],[],[],[],[],[]]',
    "a run of less than nothing": b'["Departure","",[[[0,1,-1],1]],[],[],[],[],[],[]]',
    "a group of more than all processes": b'["Departure","",[[[0,1,20,0,1,1],1]],[],[],[],[],[],[]]',
    "counts that would fill the memory": b'["Departure","",[],[[[0,1,2],[0,0,9999999999999]]],[],[],[],[],[]]',
    "fewer counts than members": b'["Departure","",[],[[[0,1,2],[1,1,1]]],[],[],[],[],[]]',
    "the same in an answer": b'["Answer",1,["",[],[],[[[0,1,2],[1,1,1]]],[],[],[],[]]]',
    "deep lists": b"[" * 100_000,
    "a number of many digits": b'["Chain",[],' + b"7" * 5000 + b"]",
    "a number that is too large": b'["Report",1,[[0,["",1' + b"0" * 400 + b',[],"",true,"",false,false]]],true,true]',
    "bytes that are no text": b"\xff\xfe[",
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_bytes_are_refused(case, capfd):
    with pytest.raises(
        errors.TransportError, match="rank 3 has sent .* which is no message between processes"
    ) as found:
        of_mpi("liveness.messages").message_of(REFUSED[case], 3, 20)
    assert len(str(found.value)) < 1000 and not capfd.readouterr().out


def test_a_message_that_is_too_long_is_not_parsed(monkeypatch):
    messages = of_mpi("liveness.messages")
    monkeypatch.setattr(messages, "_MOST_BYTES", 100)
    monkeypatch.setattr(messages.json, "loads", None)
    with pytest.raises(errors.TransportError, match="at most 100 are read"):
        messages.message_of(b'["CutOff","' + b"x" * 100 + b'","CutOffError"]', 3, 20)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # how this channel aborts
def test_other_bytes_end_the_job_with_one_line(capfd):
    channel = SideChannel()
    with watching(channel):
        channel.arrive(1, REFUSED["a pickle"])
        assert channel.aborted.wait(10)
    said = capfd.readouterr()
    assert said.err.startswith("spmd_grid: rank 1 has sent ") and said.err.endswith("rank 0 ends the job\n")
    assert said.err.count("\n") == 1 and not said.out
