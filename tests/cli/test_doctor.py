"""The doctor: with an MPI that works, and with all that may be wrong with one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.jobs import MPIEXEC, clean_environment, needs_mpiexec
from support.patience import in_time, run_in_time

from spmd_grid.cli.doctor import command as doctor
from spmd_grid.cli.doctor import local, probe, trials
from spmd_grid.cli.doctor.verdict import FAILS, OK, SLOW
from spmd_grid.cli.main import main

# Alone in its PATH: the doctor has to find the mpiexec beside Python by itself.
BARE_PATH = "/usr/bin:/bin"

QUICK = {
    "thread_level": "MULTIPLE", "nodes": 1, "shares_memory": True, "in_place": 9.0, "by_messages": 3.0,
    "fetches": True,
    "latency": 1.0, "bandwidth": 9.0, "all_reduce": 3.0, "model": None, "far": False, "late": False, "word": 90.0,
    "peer": 1, "hosts": [{"namespaces": 1}],
}  # fmt: skip


def call(limit="240", **environment):
    """The doctor as a program; its exit code, what it found by name, and how long it took.

    It may take longer for each thing than it would by default: a machine with other work is no fault of MPI's.
    """
    began = time.perf_counter()
    words = [sys.executable, "-m", "spmd_grid", "doctor", "--json", "--limit", limit]
    done = run_in_time(words, env=clean_environment(**environment), limit=120)
    assert not done.stderr, done.stderr
    said = json.loads(done.stdout)
    return done.returncode, said, time.perf_counter() - began


def named(said, name):
    return [check for check in said["checks"] if check["name"] == name]


def fake_mpiexec(folder: Path, text: str) -> str:
    """A PATH that begins with a launcher of our own."""
    launcher = folder / "mpiexec"
    launcher.write_text(f"#!/bin/sh\n{text}\n")
    launcher.chmod(0o755)
    return f"{folder}{os.pathsep}{BARE_PATH}"


@needs_mpiexec
def test_all_is_well():
    code, said, _ = call(PATH=f"{MPIEXEC.parent}{os.pathsep}{BARE_PATH}")
    assert code == 0 and said["mpi"] and said["simulated"]
    assert not [check for check in said["checks"] if check["verdict"] == FAILS]
    assert all(bool(check["advice"]) for check in said["checks"] if check["verdict"] == SLOW)
    names = [check["name"] for check in said["checks"]]
    assert {"Python", "MPI library", "MPI standard", "launcher", "cores", "single copy", "ping of 8 bytes"} <= set(
        names
    )
    assert said["conclusion"].startswith("Programs will run under MPI: ")


@needs_mpiexec
def test_a_launcher_of_another_library(tmp_path):
    """Two programs that are alone; the launcher beside Python is found and works."""
    alone = fake_mpiexec(tmp_path, '[ "$1" = "-n" ] || exit 0\nshift 2\n"$@"\n"$@"')
    code, said, _ = call(PATH=alone)
    wrong, right = named(said, "launcher")
    assert code == 0
    assert wrong["verdict"] == FAILS and "do not see each other" in wrong["value"] and str(MPIEXEC) in wrong["advice"]
    assert right["verdict"] == OK and "It is not in PATH" in right["advice"]


@pytest.mark.parametrize(
    "text, limit, what",
    [
        ("sleep 1000", "0.5", "did not end within 0.5 s"),
        ("(sleep 1000) & wait", "0.5", "did not end within 0.5 s"),
        ("trap '' TERM; while true; do sleep 0.2; done", "0.5", "did not end within 0.5 s"),
        ("echo 'HYDRA Error: no proxy' >&2; exit 3", "20", "no proxy"),
        ("exit 3", "20", "ended with exit code 3"),
    ],
)
def test_a_launcher_that_does_not_work(tmp_path, monkeypatch, text, limit, what):
    """Whatever it does, the doctor goes on, and nothing of it stays behind."""
    fake_mpiexec(tmp_path, text)
    monkeypatch.setattr(trials, "launchers", lambda: [(str(tmp_path / "mpiexec"), True)])
    began = time.perf_counter()
    found = trials.start_ranks(2, float(limit))
    assert not found.works and what in found.failed[0][1]
    assert in_time(time.perf_counter() - began, 15)
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    assert str(tmp_path) not in left
    (check,) = doctor._of_launch(found, 2, {"library": "MPICH 5"})
    assert check.verdict == FAILS and "came with MPICH 5" in check.advice


@pytest.mark.parametrize(
    ("then", "what"), [("sleep 1000", "did not end within 0.5 s"), ("echo MPI error 5; exit 3", "MPI error 5")]
)
def test_ranks_that_meet_and_do_not_end(tmp_path, monkeypatch, then, what):
    """Not the launcher's fault."""
    met = f"echo '{trials.MARK}{{\"size\": 2}}'\n"
    fake_mpiexec(tmp_path, f'[ "$1" = "-n" ] || exit 0\n{met}{met}{then}')
    monkeypatch.setattr(trials, "launchers", lambda: [(str(tmp_path / "mpiexec"), True)])
    found = trials.start_ranks(2, 0.5)
    assert not found.works and not found.failed
    launcher, operations = doctor._of_launch(found, 2, {"library": "MPICH 5"})
    assert (launcher.name, launcher.verdict) == ("launcher", OK) and "2 ranks that see each other" in launcher.value
    assert (operations.name, operations.verdict) == ("first operations", FAILS) and what in operations.value
    assert "SPMD_GRID_TIMEOUT" in operations.advice and "MPICH 5" in operations.advice


@pytest.mark.parametrize(
    ("hosts", "near", "peer"),
    [
        ([[0, 1], [2, 3]], [1], 2),
        ([[0, 2], [1, 3]], [2], 1),
        ([[0, 1, 2, 3]], [1, 2, 3], 1),
        ([[0, 1, 2, 3]], [1], 2),
        ([[0, 1]], [], 1),
    ],
)
def test_pings_go_between_nodes_where_there_are_several(hosts, near, peer):
    assert probe._farthest(hosts, near) == peer


def test_figures_say_what_they_are():
    host = {
        "name": "a",
        "ranks": [0, 1],
        "cores": 2,
        "shared": 1 << 30,
        "problems": [],
        "networks": [],
        "namespaces": 1,
    }
    links = {f"{kind}_{what}": 1.0 for kind in ("node", "network") for what in ("latency", "bandwidth")}
    several = {"hosts": [host, host | {"name": "b", "ranks": [2, 3]}], "links": links | {"cable_bandwidth": None}}
    figures = several | {
        "latency": 150.0,
        "bandwidth": 0.5,
        "all_reduce": 500.0,
        "nodes": 2,
        "peer": 2,
        "shares_memory": False,
    }
    found = {check.name: check for check in doctor._of_ranks(QUICK | figures)}
    assert found["ping of 8 bytes"].value == "150.0 us, ranks 0 and 2 on different nodes, the best of several"
    assert found["all_reduce of 8 bytes"].value == "500.0 us each, of 20 in a row, the best of several"
    assert {check.verdict for check in found.values()} == {OK}
    slow = [check for check in doctor._of_ranks(QUICK | figures | {"latency": 900.0}) if check.verdict != OK]
    assert [check.name for check in slow] == ["ping of 8 bytes"] and "network" in slow[0].advice


def test_no_launcher(tmp_path):
    assert trials.launchers(path=str(tmp_path), executable=str(tmp_path / "python")) == []
    (check,) = doctor._of_launch(trials.Launch(), 2, {})
    assert check.verdict == FAILS and "pip install mpich" in check.advice


def test_the_launcher_of_path_comes_first(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "beside").mkdir()
    path = fake_mpiexec(tmp_path / "mine", "")
    fake_mpiexec(tmp_path / "beside", "")
    found = trials.launchers(path=path, executable=str(tmp_path / "beside" / "python"))
    assert found == [(str(tmp_path / "mine" / "mpiexec"), True), (str(tmp_path / "beside" / "mpiexec"), False)]


def test_a_library_that_cannot_be_loaded(tmp_path):
    """Exit code 1, and the doctor says how to get one, and that simulated ranks work."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['mpi4py'] = None")
    package = str(Path(__file__).parents[2])
    code, said, _ = call(PYTHONPATH=os.pathsep.join([str(tmp_path), package]), PATH=BARE_PATH)
    (library,) = named(said, "MPI library")
    assert code == 1 and not said["mpi"] and said["simulated"]
    assert library["verdict"] == FAILS and "pip install mpich" in library["advice"]
    assert "python -m spmd_grid run -n 4 app.py" in said["conclusion"] and not named(said, "launcher")


def test_too_little_time():
    """Every attempt is cut off, and the doctor still comes to an end."""
    code, said, seconds = call("0.05")
    assert code == 1 and not said["mpi"] and not said["simulated"] and in_time(seconds, 20)
    assert "did not end within 0.05 s" in named(said, "MPI library")[0]["value"]
    assert said["conclusion"] == "Programs will not run; see the failures above."


def test_inside_a_job(monkeypatch, capsys):
    monkeypatch.setenv("PMI_SIZE", "2")
    assert main(["doctor"]) == 2
    assert "start it without mpiexec" in capsys.readouterr().err


def test_the_table(monkeypatch, capsys):
    """A line per check, and below it what to do."""
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trials, "probe", lambda what, limit: trials.Probe({}, "it is broken"))
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:3] == ["fails", "MPI", "library"])
    assert lines[at].endswith("it is broken") and lines[at + 1].lstrip().startswith("-> Install one with")
    assert max(map(len, lines)) < 120


def test_several_pid_namespaces_are_told():
    apart = QUICK | {"hosts": [{"namespaces": 2}]}
    (check,) = [check for check in doctor._of_ranks(apart) if check.name == "PID namespaces"]
    assert check.verdict == OK and check.value.startswith("2 on one host")
    error = "spmd_grid.errors.TransportError: init_grid: large messages fail in 2 PID namespaces. Set X=0"
    *_, check = doctor._of_launch(trials.Launch("mpiexec", broken=error), 2, {"library": "MPICH 5"})
    assert (check.verdict, check.name) == (FAILS, "PID namespaces")
    assert check.value == "large messages fail in 2 PID namespaces. Set X=0"


def test_a_cache_folder_of_others_is_told():
    kept = {"warm_up": 0.0, "cache": "/home/me", "refused": ""}
    assert [check.name for check in doctor._of_simulated(trials.Probe(kept))] == ["simulated ranks", "compiled kernels"]
    _, check, _ = doctor._of_simulated(trials.Probe(kept | {"refused": "other users may write to /tmp/cache"}))
    assert (check.verdict, check.name) == (SLOW, "cache folder") and "may write to /tmp/cache" in check.value


def test_slow_words_within_a_cache_are_told():
    found = doctor._of_ranks(QUICK | {"late": True, "word": 301.0})
    (check,) = (each for each in found if each.name == "processors")
    assert check.verdict == OK and check.value == "share a cache, in which a word takes 301 ns"


@pytest.mark.parametrize("changed, name", [
    ({"latency": 500.0}, "ping of 8 bytes"), ({"bandwidth": 0.1}, "ping of 1 MiB"),
    ({"all_reduce": 999.0}, "all_reduce of 8 bytes"), ({"far": True}, "processors"),
    ({"shares_memory": False}, "single copy"), ({"in_place": 1.0}, "single copy"),
    ({"thread_level": "SINGLE"}, "MPI threads"),
])  # fmt: skip
def test_what_is_slow_says_what_to_do(changed, name):
    assert {(check.verdict, check.advice) for check in doctor._of_ranks(QUICK)} == {(OK, "")}
    (check,) = (check for check in doctor._of_ranks(QUICK | changed) if check.verdict != OK)
    assert (check.verdict, check.name) == (SLOW, name) and len(check.advice) > 40


def test_plain_arrays():
    """A line tells whether the system copies them; either is fine."""
    for fetches, words in ((True, "the system may copy"), (False, "lets no rank read another's")):
        (check,) = (each for each in doctor._of_ranks(QUICK | {"fetches": fetches}) if each.name == "plain arrays")
        assert check.verdict == OK and words in check.value


def test_memory_that_cannot_be_shared(tmp_path, monkeypatch):
    strict = tmp_path / "overcommit"
    strict.write_text("2\n")
    _, check = local.memory(2, str(tmp_path), str(strict))
    assert check.verdict == SLOW and "vm.overcommit_memory" in check.advice
    check = list(local.memory(2, str(tmp_path), "none"))[-1]
    assert check.verdict == SLOW and "/proc" in check.value and "mount" in check.advice
    strict.write_text("0\n")
    monkeypatch.setenv("SPMD_GRID_ARENA", "4096")
    check = list(local.memory(2, str(tmp_path / "none"), str(strict)))[-1]
    assert check.verdict == SLOW and "unset SPMD_GRID_ARENA" in check.advice
    monkeypatch.setenv("SPMD_GRID_ARENA", "much")
    assert list(local.memory(2, "none", str(strict)))[-1].verdict == FAILS


def test_more_ranks_than_cores():
    (check,) = local.cores(10_000)
    assert check.verdict == SLOW and "take turns" in check.advice
    (check,) = local.cores(1)
    assert check.verdict == OK and not check.advice


@pytest.mark.parametrize("text, wanted", [("150000 100000", 1.5), ("max 100000", None), ("nonsense", None)])
def test_the_quota_of_a_control_group(tmp_path, text, wanted):
    (tmp_path / "job" / "step").mkdir(parents=True)
    (tmp_path / "job" / "cpu.max").write_text(text)
    (tmp_path / "own").write_text("0::/job/step\n")
    assert local.quota(tmp_path, tmp_path / "own") == wanted
    assert local.quota(tmp_path, tmp_path / "none") is None


def test_the_narrowest_of_nested_quotas_counts(tmp_path):
    (tmp_path / "job" / "step").mkdir(parents=True)
    (tmp_path / "own").write_text("0::/job/step\n")
    for folder, quota in (("", "max 100000"), ("job", "150000 100000"), ("job/step", "300000 100000")):
        (tmp_path / folder / "cpu.max").write_text(quota)
    assert local.quota(tmp_path, tmp_path / "own") == 1.5
    (tmp_path / "job" / "step" / "cpu.max").write_text("50000 100000")
    assert local.quota(tmp_path, tmp_path / "own") == 0.5
