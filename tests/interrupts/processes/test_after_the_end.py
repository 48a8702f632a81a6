"""After MPI.Finalize, and when Python ends, every operation is refused; none crashes."""

import json
from pathlib import Path

import pytest
from support.jobs import needs_mpiexec, run_job

_LOCAL = {"allocate", "write", "close"}


@needs_mpiexec
@pytest.mark.parametrize("when", ["finalized", "destructor"])
def test_every_way_in_is_refused(when):
    program = Path(__file__).with_name("ended_job.py")
    job = run_job("mpiexec", 2, program, when)
    assert (job.code, job.err) == (0, ""), job
    told = json.loads(job.out)
    through = {name for name, text in told.items() if text.startswith("went through")}
    assert through == _LOCAL
    for name in told.keys() - through - _NAMED[when].keys():
        assert told[name].startswith("CutOffError: the program is at its end, and MPI is finalized"), (name, told[name])
    for name, text in _NAMED[when].items():
        assert told[name].startswith(text), told[name]


# What else there is to say: after Finalize no communicator has a world.
_NAMED = {
    "finalized": {"init_grid": "TransportError: MPI has been finalized"},
    "destructor": {},
}
