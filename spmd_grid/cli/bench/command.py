"""``python -m spmd_grid bench``: runs a benchmark, on MPI processes that it starts if needed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Protocol

from spmd_grid.bench.common.launch import inside_a_job, on_ranks
from spmd_grid.bench.common.plot import SUFFIXES
from spmd_grid.bench.common.report import Outputs, Subject, read_again
from spmd_grid.bench.common.rows import (
    ARRAY_LIBRARIES,
    PROGRAM_LIBRARIES,
    RESHARD_LIBRARIES,
    STORAGE_LIBRARIES,
    matching_cases,
)
from spmd_grid.bench.halo import cases as halo_cases
from spmd_grid.bench.ops import cases as ops_cases
from spmd_grid.bench.plan import cases as plan_cases
from spmd_grid.bench.reshard import cases as reshard_cases
from spmd_grid.bench.start import cases as start_cases
from spmd_grid.cli.bench import parsers
from spmd_grid.cli.bench.parsers import (
    QUICK_ROUNDS,
    QUICK_START_ROUNDS,
    QUICK_STORAGE_ROUNDS,
    ROUNDS,
    START_ROUNDS,
    STORAGE_ROUNDS,
)
from spmd_grid.cli.reporting import refuse
from spmd_grid.errors import TransportError

__all__ = ["add_parser"]

_OVERLAP_ROUNDS = 15
_TEXTS = "rows", "json", "markdown", "plot", "figures"


class _RefusedError(Exception):
    """The request cannot be fulfilled; the text says why."""


class _Cases(Protocol):
    """A module ``cases``."""

    def all_cases(self) -> Sequence[Any]: ...

    def quick_cases(self) -> Sequence[Any]: ...


def add_parser(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure against hand-written mpi4py and other libraries",
        description="Measures this package, mostly on MPI processes; starts them, unless it runs on several already.",
    )
    kinds = parser.add_subparsers(metavar="what", required=True)
    for add_kind, bench in (
        (parsers.ops_parser, _bench_ops),
        (parsers.halo_parser, _bench_halo),
        (parsers.reshard_parser, _bench_reshard),
        (parsers.arrays_parser, _bench_arrays),
        (parsers.programs_parser, _bench_programs),
        (parsers.storage_parser, _bench_storage),
        (parsers.plan_parser, _bench_plan),
        (parsers.watch_parser, _bench_watch),
        (parsers.kernels_parser, _bench_kernels),
        (parsers.start_parser, _bench_start),
    ):
        add_kind(kinds).set_defaults(command=_command(bench))


# -- the commands ----------------------------------------------------------------------------------------------


def _bench_halo(options: Namespace) -> int:
    cases = _cases(options, halo_cases)
    if _is_elsewhere(options):
        return _on_ranks("halo", options)
    from spmd_grid.bench.halo.measure import run_bench

    run_bench([] if options.overlap else cases, _rounds(options), _outputs(options), _overlap_rounds(options))
    return 0


def _bench_ops(options: Namespace) -> int:
    cases = _cases(options, ops_cases)
    if options.figures:
        from spmd_grid.bench.ops.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    if _is_elsewhere(options):
        return _on_ranks("ops", options)
    from spmd_grid.bench.ops.measure import run_bench

    run_bench(cases, _rounds(options), _outputs(options))
    return 0


def _bench_reshard(options: Namespace) -> int:
    cases = _cases(options, reshard_cases)
    if options.figures:
        from spmd_grid.bench.reshard.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    if _is_elsewhere(options):
        return _on_ranks("reshard", options)
    from spmd_grid.bench.reshard.measure import run_bench

    run_bench(cases, _rounds(options), _peers(options, RESHARD_LIBRARIES), _outputs(options))
    return 0


def _bench_arrays(options: Namespace) -> int:
    from spmd_grid.bench.arrays import cases as arrays_cases

    cases = _cases(options, arrays_cases)
    if options.figures:
        from spmd_grid.bench.arrays.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    if _is_elsewhere(options):
        return _on_ranks("arrays", options)
    from spmd_grid.bench.arrays.measure import run_bench

    run_bench(cases, _rounds(options), _peers(options, ARRAY_LIBRARIES), _outputs(options))
    return 0


def _bench_programs(options: Namespace) -> int:
    from spmd_grid.bench.programs import cases as programs_cases

    cases = _cases(options, programs_cases)
    if options.figures:
        from spmd_grid.bench.programs.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    missing = programs_cases.missing_examples()
    if missing:
        raise _RefusedError(missing)
    if _is_elsewhere(options):
        return _on_ranks("programs", options)
    from spmd_grid.bench.programs.measure import run_bench

    run_bench(cases, _rounds(options), _peers(options, PROGRAM_LIBRARIES), _outputs(options))
    return 0


def _bench_storage(options: Namespace) -> int:
    from spmd_grid.bench.storage import cases as storage_cases

    cases = _cases(options, storage_cases if options.size is None else storage_cases.Sized(options.size))
    if options.figures:
        from spmd_grid.bench.storage.measure import SUBJECT

        return _from_figures(SUBJECT, options)
    folder = options.folder or gettempdir()
    if not Path(folder).is_dir():
        raise _RefusedError(f"--folder is {folder!r}; it must be a folder")
    if _is_elsewhere(options):
        return _on_ranks("storage", options)
    from spmd_grid.bench.storage.measure import run_bench

    rounds = options.rounds or (QUICK_STORAGE_ROUNDS if options.quick else STORAGE_ROUNDS)
    run_bench(cases, rounds, _peers(options, STORAGE_LIBRARIES), folder, _outputs(options))
    return 0


def _bench_plan(options: Namespace) -> int:
    from spmd_grid.bench.plan.measure import run_bench

    run_bench(_cases(options, plan_cases), _rounds(options), _outputs(options))
    return 0


def _bench_watch(options: Namespace) -> int:
    from spmd_grid.bench.watch import cases as watch_cases

    cases = _cases(options, watch_cases)
    if _is_elsewhere(options):
        return _on_ranks("watch", options)
    from spmd_grid.bench.watch.measure import run_bench

    run_bench(cases, _rounds(options), _outputs(options))
    return 0


def _bench_kernels(options: Namespace) -> int:
    from spmd_grid.bench.kernels import cases as kernel_cases
    from spmd_grid.bench.kernels.measure import run_bench

    run_bench(_cases(options, kernel_cases), _rounds(options), _outputs(options))
    return 0


def _bench_start(options: Namespace) -> int:
    from spmd_grid.bench.start.measure import run_bench

    rounds = options.rounds or (QUICK_START_ROUNDS if options.quick else START_ROUNDS)
    run_bench(_cases(options, start_cases), rounds, _outputs(options))
    return 0


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


def _command(bench: Callable[[Namespace], int]) -> Callable[[Namespace], int]:
    def run(options: Namespace) -> int:
        for name, value in vars(options).items():
            if value is None and name in _TEXTS:
                setattr(options, name, "")
        try:
            return bench(options)
        except (_RefusedError, TransportError, OSError) as error:
            return refuse("bench", str(error))

    return run


# -- options ---------------------------------------------------------------------------------------------------


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
        raise _RefusedError("--plot needs matplotlib; 'pip install \"spmd-grid[bench]\"' installs it")
    return found


def _outputs(options: Namespace) -> Outputs:
    return Outputs(options.json, options.markdown, getattr(options, "plot", ""))


def _rounds(options: Namespace) -> int:
    return options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)


def _peers(options: Namespace, libraries: Sequence[str]) -> Sequence[str]:
    """The other libraries to measure."""
    return options.peers.split(",") if options.peers else libraries


def _overlap_rounds(options: Namespace) -> int:
    if options.overlap:
        return options.rounds or (QUICK_ROUNDS if options.quick else _OVERLAP_ROUNDS)
    return 0 if options.quick or options.rows else _OVERLAP_ROUNDS


def _is_elsewhere(options: Namespace) -> bool:
    """Whether the processes that measure have yet to be started."""
    return not options.here and not inside_a_job()


def _on_ranks(kind: str, options: Namespace) -> int:
    """Start the processes that measure, with the options of this command."""
    arguments = [f"--{name}" for name in ("quick", "overlap") if getattr(options, name, False)]
    names = "rows", "rounds", "json", "markdown", "plot", "peers", "size", "folder"
    valued = [(name, getattr(options, name, None)) for name in names]
    arguments += [f"--{name}={value}" for name, value in valued if value]
    return on_ranks(options.ranks, ["bench", kind, "--here", *arguments])
