"""Hosts that are not alike: other software, other clocks, folders of their own, and less of a system."""

import sys
from pathlib import Path

import pytest
from support.hosts.runs import no_memfd, run_on_hosts
from support.jobs import clean_environment, is_mpich, of_mpi
from support.patience import in_time

import spmd_grid
from spmd_grid.cli.main import main
from spmd_grid.errors import TransportError
from spmd_grid.watch.trace.reading import read_trace

DRILL = Path(__file__).resolve().parents[1] / "support" / "hosts" / "drill.py"
CHECKS = DRILL.with_name("checks.py")
PACKAGE = Path(spmd_grid.__file__).parent


def run(*command, setup=(), options=(), ranks="1,1", **environment):
    exports = [] if is_mpich() else [word for name in environment for word in ("-x", name)]
    before = [word for line in setup for word in ("--setup", 1, line)]
    return run_on_hosts("--ranks-per-node", ranks, *options, *before, "--", *exports, *command, **environment)


def test_other_software_on_two_hosts(tmp_path):
    """Another version of the package on one, and another Python (by a number that it makes up) on the next."""
    other = tmp_path / "version.py"
    other.write_text('__version__ = "9.8.7"\n')
    ended = run(
        "python", DRILL, "another Python", setup=[f"mount --bind {other} {PACKAGE / 'version.py'}"], ranks="1,1,2",
        PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert ended.code not in (0, 124) and not ended.left, ended
    assert "TransportError: init_grid: processes run different software" in ended.err, ended
    ours, python = spmd_grid.__version__, f"Python 3.{sys.version_info.minor}"
    assert f"  spmd_grid {ours}, {python} on node0 (rank 0)\n" in ended.err, ended
    assert f"  spmd_grid 9.8.7, {python} on node1 (rank 1)\n" in ended.err, ended
    assert f"  spmd_grid {ours}, Python 3.99 on node2 (ranks 2-3)\n" in ended.err, ended


def test_hosts_of_one_name():
    """The others' answers are made up."""
    hosts = of_mpi("hosts.hosts")

    class Answers:
        def allgather(self, own):
            return [own, own, (("b", "id of b"), ("spmd_grid 0.1.0", "Python 3.13")), (("b", "id of c"), own[1])]

    with pytest.raises(TransportError, match=r"Python 3.13 on b \(rank 2\)") as raised:
        hosts.meet_hosts(Answers())
    assert "(ranks 0-1, 3)" in str(raised.value) and ", b#2 (" in str(raised.value)


def check_times(trace, ranks=2):
    """No all_reduce ended on one rank before it began on all others; 20 ms are for the measurement of the clocks."""
    of_all = [[each for each in trace.operations[rank] if each.name == "all_reduce"] for rank in range(ranks)]
    assert len(of_all[0]) > 10
    for same in zip(*of_all, strict=True):
        late = max(each.began for each in same) - min(each.ended for each in same)
        assert in_time(1e-6 * late, 0.02), same


@pytest.mark.parametrize("ranks", ["2,2", "1,1,1", "3,1"])
def test_a_clock_that_is_wrong_by_an_hour(tmp_path, ranks):
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\n"
        "right = time.time\n"
        "if socket.gethostname() == 'node1':\n"
        "    time.time = lambda: right() - 3600\n"
    )  # fmt: skip
    folder = tmp_path / "trace"
    paths = f"{tmp_path}:{clean_environment()['PYTHONPATH']}"
    ended = run("python", DRILL, "end", "15", ranks=ranks, PYTHONPATH=paths, SPMD_GRID_TRACE=str(folder))
    assert ended.code == 0 and not ended.left, ended
    trace = read_trace(folder)
    assert trace.missing == []
    check_times(trace, ranks=sum(map(int, ranks.split(","))))
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".spmd")]


def test_folders_of_each_host(tmp_path, capsys):
    """The job says what to do, and the parts are read together; what an earlier run left is gone."""
    folder, collected = tmp_path / "trace", tmp_path / "collected"
    folder.mkdir()
    copy = f"mkdir -p {collected}/$(hostname) && cp {folder}/* {collected}/$(hostname)"
    ended = run(
        "sh", "-c", f"python {DRILL} end 15 && {copy}",
        options=["--private", folder], setup=[f"touch {folder}/rank-0.json {folder}/rank-7.json"],
        SPMD_GRID_TRACE=str(folder),
    )  # fmt: skip
    assert ended.code == 0 and not ended.left, ended
    assert ended.err.count("is not shared by all hosts: node1 (rank 1) write to folders of their own") == 1, ended
    assert [path.name for path in (collected / "node1").iterdir()] == ["rank-1.json"]
    check_times(read_trace(collected / "node0", collected / "node1"))
    assert read_trace(collected / "node0").missing == [1]
    assert main(["trace", str(collected / "node0"), str(collected / "node1")]) == 0
    assert "rank 1 (1,) on node1" in capsys.readouterr().out
    assert main(["trace", str(collected / "node0"), str(collected / "node0")]) == 2
    assert "are both of rank 0" in capsys.readouterr().err


def test_a_full_disk(tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir()
    ended = run(
        "python", DRILL, "end", "30", setup=[f"mount -t tmpfs -o size=4k tmpfs {folder}"], SPMD_GRID_TRACE=str(folder)
    )
    assert ended.code == 0 and not ended.left, ended
    assert "the trace of rank 1 (1,) on node1 on node1 is incomplete" in ended.err, ended
    ours = [line for line in ended.err.splitlines() if line.startswith("spmd_grid: ")]  # launchers speak as well
    assert "No space left on device" in ended.err and len(ours) == 2, ended


def test_a_folder_that_cannot_be_written(tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir()
    ended = run("python", DRILL, "end", setup=[f"mount -t tmpfs -o ro tmpfs {folder}"], SPMD_GRID_TRACE=str(folder))
    assert ended.code not in (0, 124) and not ended.left, ended
    assert "OutputError: the trace cannot be written to" in ended.err and "(on node1)" in ended.err, ended


NO_PROC = "umount -l /proc"
# UCX (1.20) itself does not start without /proc; MPICH's other network layer does, and so does Open MPI.
WITHOUT_UCX = {"MPIR_CVAR_CH4_NETMOD": "ofi"}


@pytest.mark.parametrize("missing", ["memfd", "proc"])
def test_a_host_without_shared_memory_sends_messages(tmp_path, missing):
    (tmp_path / "sitecustomize.py").write_text(no_memfd("node1") if missing == "memfd" else "")
    paths = f"{tmp_path}:{clean_environment()['PYTHONPATH']}"
    ended = run(
        "python", CHECKS, "halos", "reshardings", ranks="1,2", setup=[NO_PROC] * (missing == "proc"),
        **(WITHOUT_UCX if is_mpich() else {}), PYTHONPATH=paths,
    )  # fmt: skip
    assert ended.code == 0 and not ended.left and not ended.err, ended
    last = "ranks on ['node0', 'node1', 'node1'], memory of 0 others in sight"
    assert [line.partition(":")[0] for line in ended.out.splitlines()] == ["halos", "reshardings", last], ended
