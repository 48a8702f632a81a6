"""Messages that nobody receives: the program fails at its end, and names the line that sent them."""

import numpy as np
import pytest
from support.jobs import needs_mpiexec, run_job

import spmd_grid as sg

HEAD = 'import sys\nimport numpy as np\nimport spmd_grid as sg\ngrid = sg.init_grid((-1,), ("p",))\n'
ONE = 'if grid.rank == 0: sg.send(np.ones(3), grid, ["p"], destination=[1])\n'
# The fifth line of a program sends; how it goes on, and the words of the report.
LOST = {
    "plain": (ONE + "sg.all_reduce(1.0, grid)\n", "1 message", "send(grid_axes=[0], destination=[1]) at program.py:5"),
    "exits": (ONE + "sg.all_reduce(1.0, grid)\nsys.exit(0)\n", "1 message", "program.py:5"),
    "started": (ONE.replace("sg.send(", "sg.send.start(") + "sg.all_reduce(1.0, grid)\n", "1 message", "program.py:5"),
    "large": (
        "if grid.rank == 0: sg.send.start(np.ones(10**6), grid, ['p'], destination=[1])\n",
        "1 message",
        "program.py:5",
    ),
    "several": (
        "for i in range(5 * (1 - grid.rank)): sg.send(np.ones(3), grid, ['p'], destination=[1])\n"
        "if grid.rank == 1: sg.recv(grid, ['p'], [0])\n",
        "4 messages",
        "program.py:5 (4 times)",
    ),
    "plan": (
        "if grid.rank == 0: sg.send.plan(grid, (3,), 'f8', ['p'], [1]).run(np.ones(3))\n",
        "1 message",
        "program.py:5",
    ),
}
ITSELF = "if grid.rank == 1: sg.send(np.ones(3), grid, ['p'], destination=[1])\nsg.all_reduce(1.0, grid)\n"
FINE = (
    ONE
    + "if grid.rank == 1: sg.recv(grid, ['p'], [0])\n"
    + ONE.replace("sg.send(np.ones(3)", "sg.send.start(np.ones(10**6)")  # neither request is waited for
    + "if grid.rank == 1: sg.recv(grid, ['p'], [0]); asked = sg.recv.start(grid, ['p'])\nsg.all_reduce(1, grid)\n"
    + ONE
)


def run(tmp_path, transport, text, n=2):
    program = tmp_path / "program.py"
    program.write_text(HEAD + text)
    return run_job(transport, n, program)


def check(job, receiver, count, words):
    assert job.code == 1, job
    assert f"rank {receiver} ({receiver},) never received {count} of rank " in job.err and words in job.err, job
    assert job.err.count("never received") == 1 and "Traceback" not in job.err, job


@pytest.mark.parametrize("case", ["plain", "exits", "several"])
def test_lost_on_simulated_ranks(tmp_path, case):
    text, count, words = LOST[case]
    check(run(tmp_path, "simulated", text), 1, count, words)


@needs_mpiexec
@pytest.mark.parametrize("case", LOST)
def test_lost_under_mpi(tmp_path, case):
    text, count, words = LOST[case]
    check(run(tmp_path, "mpiexec", text), 1, count, words)


@needs_mpiexec
@pytest.mark.parametrize("transport", ["simulated", "mpiexec"])
def test_message_to_oneself(tmp_path, transport):
    check(run(tmp_path, transport, ITSELF), 1, "1 message", "program.py:5")
    text = ONE.replace("destination=[1]", "destination=[0]")
    check(run(tmp_path, transport, text, n=1), 0, "1 message", "program.py:5")


@needs_mpiexec
@pytest.mark.parametrize("transport", ["simulated", "mpiexec"])
def test_an_exception_is_the_report(tmp_path, transport):
    for n in (1, 2) if transport == "mpiexec" else (2,):
        sends = ONE.replace("destination=[1]", "destination=[grid.size - 1]")
        job = run(tmp_path, transport, sends + "sg.all_reduce(1.0, grid)\nraise ValueError('on purpose')\n", n)
        assert job.code == 1 and "on purpose" in job.err and "never received" not in job.err, job


@needs_mpiexec
@pytest.mark.parametrize("transport", ["simulated", "mpiexec"])
def test_nothing_is_lost(tmp_path, transport):
    job = run(tmp_path, transport, FINE)
    assert (job.code, job.err) == (0, ""), job


def test_error_of_run_spmd():
    def body(receives):
        grid = sg.init_grid((-1,))
        if grid.rank == 0:
            sg.send(np.arange(3), grid, [0], [2])
        return sg.recv(grid, [0]).tolist() if receives and grid.rank == 2 else None

    with pytest.raises(
        sg.RankEndedError, match=r"rank 2 \(2,\) never received 1 message of rank 0 .* at test_lost"
    ) as e:
        sg.run_spmd(body, False, ranks=3)
    assert (e.value.rank, e.value.code) == (2, 1)
    assert sg.run_spmd(body, True, ranks=3) == [None, None, [0, 1, 2]]
