"""`scripts/cluster`: hosts of their own, and nothing that stays."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.hosts.events import Event, due_events
from support.hosts.options import read_options
from support.hosts.runs import CLUSTER, run_on_hosts, skip_without_hosts
from support.jobs import clean_environment
from support.patience import until

# Prints what a host has of its own, and leaves a file in each of its folders.
_TELL = """
import json, os, socket, sys, time
from pathlib import Path
folders = ["/dev/shm", os.environ["TMPDIR"], sys.argv[1]]
found = [os.listdir(folder) for folder in folders]
addresses = os.popen("ip -o -4 addr show eth0").read().split()
told = {"host": socket.gethostname(), "address": addresses[3], "found": found, "cores": len(os.sched_getaffinity(0)),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")), "boot": time.clock_gettime(7)}
time.sleep(0.5)
for folder in folders:
    Path(folder, "left-by-test").touch()
sys.stdout.write(json.dumps(told) + "\\n")
"""


def test_hosts_have_little_in_common(tmp_path):
    program = tmp_path / "tell.py"
    program.write_text(_TELL)
    private = tmp_path / "private"
    private.mkdir()
    (private / "of this machine").touch()
    run = run_on_hosts(
        "-n", 3, "--nodes", 3, "--private", private, "--settle", 0, "--", sys.executable, "-S", program, private
    )
    assert run.code == 0, run
    told = sorted((json.loads(line) for line in run.out.splitlines()), key=lambda each: each["host"])
    assert [each["host"] for each in told] == ["node0", "node1", "node2"]
    assert [each["address"] for each in told] == ["10.99.0.1/24", "10.99.0.2/24", "10.99.0.3/24"]
    for node, each in enumerate(told):
        assert each["cores"] == max(1, len(os.sched_getaffinity(0)) // 3)
        assert each["processes"] < 15
        assert all("left-by-test" not in files for files in each["found"])
        assert f"node{node}: file /dev/shm/left-by-test, 0 bytes" in run.left, run
    assert told[1]["boot"] - told[0]["boot"] > 50_000
    assert [path.name for path in private.iterdir()] == ["of this machine"]


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        (["--ranks-per-node", "2,1"], ["node0", "node0", "node1"]),
        (["-n", "4", "--map", "cyclic"], ["node0", "node1", "node0", "node1"]),
    ],
)
def test_ranks_are_where_they_should_be(tmp_path, options, hosts):
    program = tmp_path / "where.py"
    program.write_text(
        "import os, socket\n"
        "rank = next(os.environ[name] for name in ('PMI_RANK', 'OMPI_COMM_WORLD_RANK') if name in os.environ)\n"
        "os.write(1, f'{rank} {socket.gethostname()}\\n'.encode())\n"
    )
    run = run_on_hosts(*options, "--", sys.executable, "-S", program)
    assert run.code == 0, run
    assert sorted(run.out.splitlines()) == [f"{rank} {host}" for rank, host in enumerate(hosts)], run
    assert not run.left, run


def _processes_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode() if entry.name.isdigit() else ""
        except OSError:
            continue
        if text in words and int(entry.name) != os.getpid():
            found.append(words)
    return found


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_nothing_stays_when_the_command_is_killed(tmp_path, kill):
    skip_without_hosts()
    mark = f"{tmp_path}/sleeper.py"
    Path(mark).write_text("import time; print('asleep', flush=True); time.sleep(1000)")
    command = [sys.executable, CLUSTER, "run", "-n", "2", "--", sys.executable, mark]
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tool:
        assert tool.stdout.readline() == tool.stdout.readline() == "asleep\n"
        assert len(_processes_with(mark)) >= 4  # it, process 1, and two ranks
        tool.send_signal(kill)
        tool.wait(60)
    assert until(lambda: not _processes_with(mark), 5.0), _processes_with(mark)
    assert tool.returncode != 0


def test_a_command_that_was_stopped_goes_on(tmp_path):
    """It ends even if what started it has noticed that it was stopped."""
    program = tmp_path / "slow.py"
    program.write_text("import time\nprint('started', flush=True)\ntime.sleep(1)\nprint('done')\n")
    events = ["--at", "started", "freeze 0", "--at", "started+0.5", "thaw 0"]
    run = run_on_hosts("-n", 2, *events, "--", sys.executable, "-S", program)
    assert run.code == 0 and sorted(run.out.split()) == ["done"] * 2 + ["started"] * 2, run


def test_events_are_due_once_in_order():
    events = [Event("2", "late"), Event("1.5", "early"), Event("ready", "at once"), Event("ready+0.5", "then")]
    assert [event.action for event in due_events(events, 1.0, "not yet")] == []
    assert [event.action for event in due_events(events, 2.1, "ready")] == ["early", "late", "at once"]
    assert [event.action for event in due_events(events, 2.7, "ready")] == ["then"]
    assert not events


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "-n", "4"], "a command must follow"),
        (["run", "-n", "1", "--nodes", "2", "--", "x"], "-n is 1; it must be at least the number of nodes, 2"),
        (["run", "-n", "3", "--ranks-per-node", "3,1", "--", "x"], "--ranks-per-node is for 4 ranks, -n is 3"),
        (["run", "--ranks-per-node", "3,1", "--map", "cyclic", "--", "x"], "the same number of ranks on every node"),
        (["run", "--latency", "3", "--", "x"], "'3' is not a number with one of the units us, ms, s"),
        (["run", "--setup", "2", "true", "--", "x"], "--setup is for node '2'; there are nodes 0 to 1"),
        (["run", "--nodes", "0", "--", "x"], "--nodes is 0; it must be 1 to 64"),
        (["run", "-n", "0", "--", "x"], "-n is 0; it must be at least the number of nodes, 2"),
        (["run", "--ranks-per-node", "2,x", "--", "x"], "'2,x' is not a list of numbers such as 3,1"),
        (["run", "--private", "/no/such", "--", "x"], "--private is '/no/such'; there is no such folder"),
        (["run", "--at", "5", "link-dwn 1", "--", "x"], "--at: 'link-dwn 1' is no action"),
        (["run", "--at", "5", "kill-node 2", "--", "x"], "--at: 'kill-node 2' is for node '2'; there are nodes 0 to 1"),
        (["run", "--at", "5", "signal FOO", "--", "x"], "--at: 'signal FOO' is no action"),
    ],
)
def test_wrong_options(words, message, capsys):
    with pytest.raises(SystemExit):
        read_options(words)
    assert message in capsys.readouterr().err


def test_ranks_of_nodes():
    assert read_options(["run", "--", "x"]).ranks == [2, 2]
    assert read_options(["run", "-n", "5", "--nodes", "2", "--", "x"]).ranks == [3, 2]
    assert read_options(["run", "--ranks-per-node", "3,1", "--", "x"]).ranks == [3, 1]
    assert read_options(["run", "--rate", "1gbit", "--latency", "20us", "--", "x"]).rate == 1.25e8


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_command_ends_once_nobody_reads_what_it_prints(stream):
    skip_without_hosts()
    program = f"import sys\nwhile True: print('a line', file=sys.{stream})"
    words = [sys.executable, CLUSTER, "run", "-n", "2", "--nodes", "2", "--", sys.executable, "-S", "-c", program]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, env=clean_environment(PATH=path), text=True, **pipes) as run:
        with getattr(run, stream) as lines:
            assert "a line\n" in lines  # launchers may warn before
        try:
            assert run.wait(30) != 0
        finally:
            run.kill()
        assert "Traceback" not in (run.stderr if stream == "stdout" else run.stdout).read()


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("net", "cluster: hosts inside this machine need namespaces, which are not permitted here ("),
        ("time", "cluster: hosts inside this machine need namespaces of their own (uts, ipc, "),
    ],
)
def test_where_namespaces_are_not_permitted(kind, line):
    """One line says why: `scripts/cluster` ends with it, tests are skipped with it."""
    skip_without_hosts()
    forbid = f"echo 0 > /proc/sys/user/max_{kind}_namespaces && exec {sys.executable} {CLUSTER} check"
    found = subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c", forbid], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, ""), found
    assert found.stderr.startswith(line) and found.stderr.count("\n") == 1, found


def test_a_user_may_have_hosts():
    """Without root, and with a PATH in which the system's tools are not, as some systems give it to users."""
    skip_without_hosts()
    words = ["unshare", "--user", "--map-user=1000", "--map-group=1000", sys.executable, CLUSTER, "check"]
    found = subprocess.run(words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, ""), found
    assert found.stderr == "cluster: hosts inside this machine are permitted\n", found
