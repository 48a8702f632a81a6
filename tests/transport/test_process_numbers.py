"""PID namespaces: who may use whose process number, and what is set before MPI starts."""

import os
import sys
import time

import pytest
from support.jobs import of_mpi

from spmd_grid.errors import TransportError
from spmd_grid.transport import process_numbers
from spmd_grid.transport.process_numbers import (
    FAILED,
    RIGHT,
    WRONG,
    Surroundings,
    have_strangers,
    pid_namespace,
    process_above,
    refusal,
    spare_numbers,
    strangers,
)

ALONE = [Surroundings(5, 7, 0)] * 3
CONTAINERS = [Surroundings(5, 7, 0), Surroundings(5, 8, 0), Surroundings(5, 7, 0)]


def test_the_namespace_is_the_systems(tmp_path):
    assert pid_namespace() == os.stat("/proc/self/ns/pid").st_ino
    assert pid_namespace(str(tmp_path / "missing")) == 0


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        (ALONE, [[], [], []]),
        (CONTAINERS, [[1], [0, 2], [1]]),
        ([Surroundings(5, 7, 0), Surroundings(6, 8, 1)], [[], []]),  # a container on each of two machines
        ([Surroundings(5, 7, 0), Surroundings(5, 8, 1)], [[1], [0]]),  # one machine, in two parts for MPI
        (
            [Surroundings(5, 7, 0), Surroundings(6, 8, 0)],
            [[1], [0]],
        ),  # of one node for MPI, whatever the machines call themselves
        ([Surroundings(5, -1, 0), Surroundings(5, -2, 0)], [[1], [0]]),  # the system does not tell
    ],
)
def test_strangers(processes, expected):
    assert [strangers(processes, rank) for rank in range(len(processes))] == expected
    assert have_strangers(processes) == any(expected)


def test_all_is_well():
    assert refusal(CONTAINERS, [(RIGHT, 0), (RIGHT, 1), (RIGHT, 2)], "MPICH Version: 5.0.2") == ""


@pytest.mark.parametrize(
    ("library", "setting"),
    [
        ("MPICH Version: 5.0.2", "MPIR_CVAR_CH4_CMA_ENABLE=0"),
        ("MVAPICH2 Version: 2.3", "MV2_SMP_USE_CMA=0"),
        ("Open MPI v5.0.11, package", "OMPI_MCA_smsc=^cma"),
        ("Open MPI v4.1.4, package", "OMPI_MCA_btl_vader_single_copy_mechanism=none"),
        ("Another MPI", "UCX_TLS=^cma"),
    ],
)
def test_the_refusal_names_the_fact_the_processes_and_the_setting(library, setting):
    text = refusal(CONTAINERS, [(RIGHT, 0), (WRONG, 0), (FAILED, 1)], library)
    assert "do not reach ranks 1-2 whole: rank 1 got other bytes than rank 0 sent" in text
    assert "2 PID namespaces" in text and setting in text
    assert "between ranks 1 and 2 failed" in refusal(CONTAINERS, [(RIGHT, 0), (RIGHT, 1), (FAILED, 1)], library)


def test_processes_above_have_names():
    parent = process_numbers.Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    assert process_above([parent]) == os.getppid()
    assert process_above(["no process has this name"]) is None


@pytest.mark.parametrize(
    ("namespace", "launcher", "environment", "changed"),
    [
        (5, None, {"PMI_RANK": "0"}, True),
        (5, None, {"SLURM_PROCID": "0"}, True),
        (5, 3, {"PMI_RANK": "0"}, False),  # the launcher is in the container too
        (process_numbers._FIRST, None, {"PMI_RANK": "0"}, False),  # no container
        (5, None, {}, False),  # no job
    ],
)
def test_numbers_are_spared_where_the_launcher_is_elsewhere(monkeypatch, namespace, launcher, environment, changed):
    monkeypatch.setattr(process_numbers, "pid_namespace", lambda: namespace)
    monkeypatch.setattr(process_numbers, "process_above", lambda names: launcher)
    monkeypatch.setattr(sys, "platform", "linux")
    after = dict(environment, OMPI_MCA_btl="tcp,self")
    added = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "OMPI_MCA_smsc": "^cma"} if changed else {}
    assert spare_numbers(after) == list(added)
    assert after == environment | {"OMPI_MCA_btl": "tcp,self"} | added


def test_a_proof_that_fails_or_does_not_end_is_neither_right_nor_waited_for():
    namespaces = of_mpi("hosts.namespaces")

    class Request:
        def __init__(self, *answers):
            self.answers = list(answers)

        def Test(self):
            answer = self.answers.pop(0) if self.answers else False
            if isinstance(answer, Exception):
                raise answer
            return answer

    soon = time.monotonic() + 60
    assert namespaces._wait(Request(False, True), soon) == RIGHT
    assert namespaces._wait(Request(False, namespaces.MPI.Exception(1)), soon) == FAILED
    assert namespaces._wait(Request(), time.monotonic() + 0.01) is None


def test_a_job_whose_bytes_do_not_come_ends_with_the_reason(monkeypatch, capsys):
    namespaces = of_mpi("hosts.namespaces")
    ended = []
    monkeypatch.setattr(namespaces, "abort", lambda: ended.append(1))
    with pytest.raises(TransportError):  # MPI would have ended this process
        namespaces._end_job(namespaces.MPI.COMM_SELF, "a message of rank 1")
    said = capsys.readouterr().err
    assert ended and "has waited for 60 s for a message of rank 1" in said and "several PID namespaces" in said


@pytest.mark.parametrize(("made", "says"), [(["OMPI_MCA_btl"], True), ([], False)])
def test_a_job_that_may_crash_in_its_first_message_says_so_before(monkeypatch, capsys, made, says):
    start = of_mpi("start")  # and MPI, which has thereby been started
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setattr(start, "spare_numbers", lambda environment: made)
    start.start_mpi()
    assert ("Open MPI may crash or hang now. Set OMPI_MCA_btl=^sm,vader" in capsys.readouterr().err) == says
