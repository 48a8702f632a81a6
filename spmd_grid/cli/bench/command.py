"""``python -m spmd_grid bench``: runs a benchmark, on MPI processes that it starts if needed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Protocol

from spmd_grid.bench.common.launch import inside_a_job, on_ranks
from spmd_grid.bench.common.plot import SUFFIXES
from spmd_grid.bench.common.report import Outputs, Subject, read_again
from spmd_grid.bench.common.rows import matching_cases
from spmd_grid.cli.bench.parsers import add_benchmark
from spmd_grid.cli.bench.subjects import BENCHMARKS, Benchmark
from spmd_grid.cli.reporting import refuse
from spmd_grid.errors import TransportError

__all__ = ["add_parser"]

_OVERLAP_ROUNDS = 15
_TEXTS = "rows", "json", "markdown", "plot", "figures", "links_name"


class _RefusedError(Exception):
    """The request cannot be fulfilled; the text says why."""


class _Cases(Protocol):
    """A module ``cases``, or what stands for it."""

    def all_cases(self) -> Sequence[Any]: ...

    def quick_cases(self) -> Sequence[Any]: ...


def add_parser(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure against hand-written mpi4py and other libraries",
        description="Measures this package, mostly on MPI processes; starts them, unless it runs on several already.",
    )
    kinds = parser.add_subparsers(metavar="what", required=True)
    for benchmark in BENCHMARKS:
        add_benchmark(kinds, benchmark).set_defaults(command=partial(_command, benchmark))


def _command(benchmark: Benchmark, options: Namespace) -> int:
    for name, value in vars(options).items():
        if value is None and name in _TEXTS:
            setattr(options, name, "")
    try:
        return _run(benchmark, options)
    except (_RefusedError, TransportError, OSError) as error:
        return refuse("bench", str(error))


def _run(benchmark: Benchmark, options: Namespace) -> int:
    """Measures here, on processes that this starts, or not at all; a part is imported only when it is needed."""
    subject = f"spmd_grid.bench.{benchmark.kind}"
    module = import_module(f"{subject}.cases")
    cases = _cases(options, _CASES.get(benchmark.kind, lambda module, options: module)(module, options))
    if benchmark.keeps_figures and options.figures:
        return _from_figures(import_module(f"{subject}.measure").SUBJECT, options)
    rounds = options.rounds or benchmark.rounds[options.quick]
    more = _ARGUMENTS.get(benchmark.kind, lambda options: {})(options)
    if benchmark.libraries:
        more["requested"] = options.peers.split(",") if options.peers else benchmark.libraries
    if benchmark.on_ranks and not options.here and not inside_a_job():
        return _on_ranks(benchmark.kind, options)
    cases = more.pop("cases", cases)
    import_module(f"{subject}.measure").run_bench(cases=cases, rounds=rounds, outputs=_outputs(options), **more)
    return 0


# -- what differs between benchmarks ---------------------------------------------------------------------------


def _of_size(module: Any, options: Namespace) -> _Cases:
    cases: _Cases = module if options.size is None else module.Sized(options.size)
    return cases


def _of_seed(module: Any, options: Namespace) -> _Cases:
    cases: _Cases = module.Drawn(options.seed) if options.seed else module
    return cases


def _with_examples(module: Any, options: Namespace) -> _Cases:
    missing = module.missing_examples()
    if missing and not options.figures:
        raise _RefusedError(missing)
    cases: _Cases = module
    return cases


def _overlap(options: Namespace) -> dict[str, Any]:
    if options.overlap:
        return {"cases": [], "overlap_rounds": options.rounds or (9 if options.quick else _OVERLAP_ROUNDS)}
    return {"overlap_rounds": 0 if options.quick or options.rows else _OVERLAP_ROUNDS}


def _folder(options: Namespace) -> dict[str, Any]:
    folder = options.folder or gettempdir()
    if not Path(folder).is_dir():
        raise _RefusedError(f"--folder is {folder!r}; it must be a folder")
    return {"folder": folder}


# The cases to choose from, and further arguments of ``run_bench``, where the options say so.
_CASES: Mapping[str, Callable[[Any, Namespace], _Cases]] = {
    "links": _of_seed,
    "storage": _of_size,
    "programs": _with_examples,
}
_ARGUMENTS: Mapping[str, Callable[[Namespace], dict[str, Any]]] = {
    "halo": _overlap,
    "links": lambda options: {"links_name": options.links_name},
    "network": lambda options: {"links_name": options.links_name, "calmest": options.calmest},
    "storage": _folder,
}


# -- options ---------------------------------------------------------------------------------------------------


def _from_figures(subject: Subject, options: Namespace) -> int:
    """Report on rows that were measured before."""
    try:
        found = read_again(subject, options.figures, options.rows, _outputs(options))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _RefusedError(
            f"{options.figures!r} has no figures of bench {subject.kind} ({type(error).__name__}: {error})"
        ) from None
    if not found:
        raise _RefusedError(f"{options.figures!r} has no row whose name contains {options.rows!r}")
    return 0


def _cases(options: Namespace, module: _Cases) -> Sequence[Any]:
    """The cases of ``module`` to measure.  Raises `_RefusedError` for options that would fail only after minutes."""
    cases = module.quick_cases() if options.quick and not options.rows else module.all_cases()
    found = matching_cases(cases, options.rows)
    if not found:
        raise _RefusedError(f"no row's name contains {options.rows!r}; they are like {cases[0].name!r}")
    plot = getattr(options, "plot", "")
    for path in filter(None, (options.json, options.markdown, plot)):
        if not Path(path).resolve().parent.is_dir() or Path(path).is_dir():
            raise _RefusedError(f"cannot write {path!r}: its folder does not exist, or it is a folder itself")
    if plot and Path(plot).suffix not in SUFFIXES:
        raise _RefusedError(f"cannot draw {plot!r}: its name must end in one of {', '.join(SUFFIXES)}")
    if plot and find_spec("matplotlib") is None:
        raise _RefusedError("--plot needs matplotlib; 'pip install matplotlib' installs it")
    return found


def _outputs(options: Namespace) -> Outputs:
    return Outputs(options.json, options.markdown, getattr(options, "plot", ""))


def _on_ranks(kind: str, options: Namespace) -> int:
    """Start the processes that measure, with the options of this command."""
    arguments = [f"--{name}" for name in ("quick", "overlap", "calmest") if getattr(options, name, False)]
    names = "rows", "rounds", "json", "markdown", "plot", "peers", "size", "folder", "links_name", "seed"
    valued = [(name, getattr(options, name, None)) for name in names]
    arguments += [f"--{name.replace('_', '-')}={value}" for name, value in valued if value]
    return on_ranks(options.ranks, ["bench", kind, "--here", *arguments])
