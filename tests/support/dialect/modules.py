"""Modules of the dialect that tests run."""

from pathlib import Path

from spmd_grid.dialect.execute.reading import name_of, symbol
from spmd_grid.dialect.running.command import module_at, wanted_ranks
from spmd_grid.dialect.running.job import Job, run_job

EXAMPLES = Path(__file__).resolve().parents[3] / "mpirun_examples" / "dialect"


def functions_of(path):
    """The public functions of a module, and how many devices each needs."""
    found = {}
    for op in module_at(str(path)).ops:
        if name_of(op) == "func.func" and symbol(op, "sym_visibility") != "private":
            name = symbol(op, "sym_name")
            found[name] = wanted_ranks(str(path), ["--main", name])
    return found


def run_quietly(path, function, is_checked=False):
    """The results of a function on this process, as local arrays."""
    found = run_job(module_at(str(path)), Job(function, is_checked=is_checked, shows_results=False))
    return [getattr(x, "local", x) for x in found]
