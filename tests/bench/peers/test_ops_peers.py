"""The hand-written operations are right: else they would be no peers.  And so is what is said to be due."""

from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_job

from spmd_grid.bench.common.contenders import Contender, check
from spmd_grid.bench.common.timing import Alone
from spmd_grid.bench.ops.cases import OPS, OpsCase, all_cases, quick_cases
from spmd_grid.grid.process_grid import init_grid
from spmd_grid.transport.launch import run_spmd

JOB = Path(__file__).with_name("ops_peers_job.py")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_contender_gets_every_cell_right(ranks):
    job = run_job("mpiexec", ranks, JOB, python=["-W", "error"])
    assert job.code == 0, job
    ways = {line.split(": ")[0]: set(line.split(": ")[1].split("; ")) for line in job.out.splitlines()}
    assert set(ways) == set(OPS)
    assert {"numpy unpack, Allgather", "Allgather, subarray types"} <= ways["all_gather last axis"]
    assert {"Sendrecv", "Isend/Irecv", "Send_init/Recv_init"} == ways["shift"]
    assert {"Alltoallw, subarray types", "numpy pack, Alltoallv"} <= ways["all_to_all 0 to 1"]
    assert "Allreduce" in ways["all_reduce"] and "Bcast" in ways["broadcast"] and "Gather" in ways["gather"]


def test_the_cases():
    cases = all_cases()
    assert len(cases) == 80 == len({case.name for case in cases})
    assert {"all_gather axis 0, 8 B", "shift, 1 KiB", "gather, 8 KiB", "scatter, 64 KiB", "broadcast, 64 MiB"} < {
        c.name for c in cases
    }
    assert set(quick_cases()) < set(cases)
    assert OpsCase("all_gather last axis", 1 << 20).shape(2) == (256, 512)
    assert OpsCase("scatter", 1 << 10).shape(3) == (384,)
    assert OpsCase("all_to_all 1 to 0", 8).shape(3) == (1, 3) and OpsCase("reduce_scatter", 8).shape(2) == (2,)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("op", OPS)
def test_our_operations_give_the_expected_results(op, ranks):
    def body():
        grid = init_grid((-1,))
        for n_bytes in (8, 1 << 10):
            xs = OpsCase(op, n_bytes).arrays(ranks, 100)
            expected = OPS[op].result(xs, grid.rank)
            found = OPS[op].call(xs[grid.rank], grid, (0,), **OPS[op].arguments)
            assert (found is None) if expected is None else np.array_equal(found, expected)

    run_spmd(body, ranks=ranks)


def test_a_wrong_result_is_noticed():
    x, out = np.empty(3), np.empty(3)
    sent, expected = np.arange(3.0), np.array([0.0, 1.0, 5.0])
    with pytest.raises(RuntimeError, match=r"it gives a wrong result in 'a row': wrong cells by rank: \[1\]"):
        check("it", Contender(lambda: np.copyto(out, x), x, out), "a row", sent, expected, Alone())
    with pytest.raises(RuntimeError, match="wrong cells by rank"):
        check("it", Contender(lambda: x[:2], x), "a row", sent, sent, Alone())
    with pytest.raises(RuntimeError, match="wrong cells by rank"):
        check("it", Contender(lambda: None, x, out), "a row", sent, sent, Alone())
    check("it", Contender(x.copy, x), "a row", sent, sent, Alone())
    check("it", Contender(lambda: None, x), "a row", sent, None, Alone())
