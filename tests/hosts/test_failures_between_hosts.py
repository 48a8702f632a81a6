"""Failures of a rank, a host or a cable: a report, an end in time, and nothing that stays on the surviving hosts."""

import re
from pathlib import Path

import pytest
from support.hosts.runs import run_on_hosts
from support.jobs import is_mpich
from support.patience import in_time

DRILL = Path(__file__).resolve().parents[1] / "support" / "hosts" / "drill.py"
SOON = 3.0  # seconds from a failure that is noticed at once to the end of the job


def drill(*words, options=(), **environment):
    nodes = () if "--ranks-per-node" in options else ("--ranks-per-node", "1,1")
    exports = [] if is_mpich() else [word for name in environment for word in ("-x", name)]
    return run_on_hosts(*nodes, *options, "--", *exports, "python", DRILL, *words, **environment)


def check_end(run, *texts, without=(), code=1):
    """The run failed, said ``texts``, and left nothing."""
    assert run.code not in (0, 124) if code is None else run.code == code, run
    for text in texts:
        assert text in run.err, (text, run)
    for text in (*without, "remote_shell.py"):  # nor does the tool that runs the hosts fail
        assert text not in run.err, (text, run)
    assert not run.left, run


@pytest.mark.parametrize(
    ("what", "texts", "environment"),
    [
        ("raise", ["rank 1 (1,) on node1 of 2 failed", "ValueError: broken on purpose"], {}),
        ("exit", ["rank 1 (1,) on node1 of 2 ended", "while rank 0 (0,) on node0 waits for it in all_reduce"], {}),
        ("return", ["rank 1 (1,) on node1 of 2 ended", "while rank 0 (0,) on node0 waits for it in all_reduce"], {}),
        ("mismatch", ["MismatchError", "rank 1 (1,): broadcast(", "rank 0 (0,): all_reduce("], {}),
        ("os._exit", [], {}),
        ("hang", ["no progress for 2 s", "rank 0 (0,) on node0 waits in", "rank 1 (1,) on node1 computes since"],
         {"SPMD_GRID_TIMEOUT": "2"}),
    ],
)  # fmt: skip
def test_a_rank_on_another_host_fails(what, texts, environment):
    run = drill(what, options=["--at", "started", "on 0 true"], **environment)
    check_end(run, *texts, code=None)
    assert in_time(run.since("on 0 true"), SOON + float(environment.get("SPMD_GRID_TIMEOUT", 0))), run


@pytest.mark.parametrize(
    ("what", "texts", "environment"),
    [
        ("mismatch", ["MismatchError", "rank 1 (1,) on node1: broadcast(", "rank 0 (0,) on node0: broadcast.plan.run("],
         {}),
        ("exit", ["rank 1 (1,) on node1 of 2 ended", "waits for it in broadcast.plan.run("], {}),
        ("hang", ["no progress for 2 s", "rank 0 (0,) on node0 waits in broadcast.plan.run("],
         {"SPMD_GRID_TIMEOUT": "2"}),
        pytest.param("kill", [], {}, marks=pytest.mark.full),
        pytest.param("raise", ["rank 1 (1,) on node1 of 2 failed"], {}, marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_a_rank_that_others_wait_for_without_a_meeting_fails(what, texts, environment):
    check_end(drill(f"ahead {what}", **environment), *texts, code=None)


@pytest.mark.parametrize("what", ["plan by one", "plan by all others"])
def test_a_rank_of_another_host_is_in_an_operation_of_another_group(what):
    """A plan's run meets the ranks of one host alone: those that wait for one another say so, without a limit."""
    run = drill(what, options=["--ranks-per-node", "2,2"])
    check_end(run, "MismatchError: processes wait for one another in different groups", code=None)
    for text in ("on node1: run_plan(grid_axes=[0], plan=", "on node1: all_reduce(", ", waits for rank "):
        assert text in run.err, run


@pytest.mark.full
def test_a_rank_on_another_host_computes_in_c():
    check_end(
        drill("hang in C", SPMD_GRID_TIMEOUT="2"),
        "no progress for 2 s",
        "rank 1 does not answer, nor does its node (node1)",
    )


@pytest.mark.parametrize("ranks", ["1,1", pytest.param("1,2", marks=pytest.mark.full)])
def test_a_rank_on_another_host_is_killed(ranks):
    run = drill("kill", options=["--ranks-per-node", ranks, "--at", "started", "on 0 true"])
    check_end(run, code=None)
    assert in_time(run.since("on 0 true"), SOON), run


def test_a_host_dies():
    run = drill(options=["--at", "started+0.2", "kill-node 1"])
    assert run.dead == ["node1"] and not run.left, run
    assert in_time(run.since("kill-node 1"), SOON), run


def check_end_at_limit(run, event):
    """The job of a host that does not answer ended after its limit of 2 s, with a report; nothing is left elsewhere.

    Open MPI's launcher has five seconds more to end by itself, then it is made to.
    """
    assert "no progress for 2 s" in run.err, run
    assert "rank 1 does not answer, nor does its node (node1)" in run.err, run
    assert run.code not in (0, 124), run
    assert in_time(run.since(event), 5 + SOON if is_mpich() else 12 + SOON), run
    assert not [line for line in run.left if line.startswith("node0")], run


@pytest.mark.parametrize("event", ["link-down 1", pytest.param("power-off 1", marks=pytest.mark.full)])
def test_a_host_is_gone_for_good(event):
    """Its cable is pulled, or it loses power: the job ends with a report, and so does the launcher."""
    run = drill(options=["--at", "started+0.2", event], SPMD_GRID_TIMEOUT="2")
    check_end_at_limit(run, event)
    assert run.dead == ["node1"] * (event == "power-off 1"), run
    assert not run.left or not is_mpich(), run  # Open MPI's daemon on the host without a cable


def test_a_host_is_gone_when_all_others_have_ended():
    """The end of the program waits for the host, though no operation does.  The launcher is on a third host."""
    options = ["--ranks-per-node", "1,1,1", "--at", "the others end", "link-down 2"]
    run = drill("stay", options=options, SPMD_GRID_TIMEOUT="2")
    assert "no progress for 2 s" in run.err and "rank 1 (1,) on node1 has ended" in run.err, run
    assert "rank 2 does not answer, nor does its node (node2)" in run.err, run
    assert run.code not in (0, 124), run
    assert not [line for line in run.left if not line.startswith("node2")], run


def test_a_rank_of_another_host_loops_when_all_others_have_ended():
    check_end(
        drill("stay", options=["--ranks-per-node", "1,1"], SPMD_GRID_TIMEOUT="2"),
        "rank 0 (0,) on node0 has ended",
        "rank 1 (1,) on node1 computes since all_reduce",
        code=None,
    )


@pytest.mark.full
@pytest.mark.skipif(is_mpich(), reason="settings of Open MPI's launcher")
def test_the_launcher_gives_up_a_host_that_is_gone():
    """Without a limit: the launcher notices after five seconds, and says so."""
    seconds = {"time": "2", "intvl": "1", "probes": "3"}
    keepalive = {f"PRTE_MCA_oob_tcp_keepalive_{name}": value for name, value in seconds.items()}
    options = ["--ranks-per-node", "1,1", "--at", "started+0.2", "link-down 1"]
    run = run_on_hosts(*options, "--", "python", DRILL, **keepalive)
    assert "lost communication with a remote daemon" in run.err and "on node node1" in run.err, run
    assert run.code == 0, run  # though the job has failed: see docs/cluster.md
    assert in_time(run.since("link-down 1"), 5 + SOON), run


def interrupted(first, told, then, file):
    """Run a program that ends once node1 has answered again; ``first`` silences node1, and ``then`` lets it answer."""
    answers = "node1 answers rank 0 (0,) on node0 again"
    events = [("started+0.2", first), (told, then), (answers, f"on 0 touch {file}"), (f"{told}+60", "signal INT")]
    run = drill("end", str(file), options=[word for event in events for word in ("--at", *event)], DRILL_NOTICE="1")
    assert run.code == 0 and not run.left, run
    assert told in run.err and answers in run.err, run
    return run


def test_a_cable_is_pulled_for_a_while(tmp_path):
    told = "and node1 (rank 1) does not answer: it is down, stopped or cannot be reached"
    run = interrupted("link-down 1", told, "link-up 1", tmp_path / "answered")
    assert re.search(r"rank 0 \(0,\) on node0 has waited for \d+ s in all_reduce", run.err), run
    assert sorted(run.out.split()[1:]) == sorted("fine on node0 fine on node1".split()), run


def test_a_host_that_stands_still_goes_on(tmp_path):
    """A stopped or overloaded host looks like one that cannot be reached: without a limit nothing ends."""
    interrupted("freeze 1", "and node1 (rank 1) does not answer", "thaw 1", tmp_path / "answered")


@pytest.mark.full
def test_a_host_that_stands_still_for_longer_than_the_limit():
    check_end_at_limit(drill(options=["--at", "started+0.2", "freeze 1"], SPMD_GRID_TIMEOUT="2"), "freeze 1")


def test_ctrl_c_at_the_launcher():
    run = drill(options=["--at", "started+0.2", "signal INT"])
    check_end(run, "(Ctrl-C)" if is_mpich() else "(SIGTERM)", code=None)
    assert in_time(run.since("signal INT"), SOON), run
