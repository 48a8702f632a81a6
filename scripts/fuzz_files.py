"""Fuzzes what reads files: checkpoints, .npy, zarr, HDF5, models of links and traces, changed at random.

    PYTHONPATH=tests python scripts/fuzz_files.py --cases 2000 --seed 0

Each changed file is read on two or three simulated ranks.  It must load, or be refused alike on all ranks by an error
of the package, a ValueError or a TypeError; afterwards an all_reduce works, so nobody was cut off.  Nothing that is
printed holds a control character, and nothing takes long or much memory.  A checkpoint that loads has the values that
were saved, bit by bit, unless its manifest was changed and given the digest of what it says now.  Prints how many cases
of each kind there were.  The first case that breaks the rule is printed whole, and ends the run with exit code 1.  zarr
and HDF5 are left out where they are not installed.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.storage.file_mutants import DIGESTED, change_bytes, change_json, change_lines

import spmd_grid as sg
from spmd_grid.cli.main import main as command
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.summary import trace_summary

ALLOWED = (sg.SpmdError, ValueError, TypeError)
MOST_SECONDS, MOST_MEMORY = 15.0, 256 << 20
ADDRESS_SPACE = 4 << 30  # more than the process has: what asks for as much fails at once
COMMANDS = ("ls", "show", "verify")
Calls = dict[str, Callable[[], Any]]


def makers() -> dict[str, Callable[[Path], None]]:
    """Functions that write the files of each kind, on simulated ranks."""

    def on_ranks(save: Callable[[Path, Any, sg.ShardedArray], object]) -> Callable[[Path], None]:
        def body(folder: Path) -> None:
            grid = sg.init_grid((-1,))
            save(folder, grid, sg.from_function(lambda i, j: 1.0 * i + j, (12, 5), sg.Sharding(grid, [[0]]), grid))

        return lambda folder: sg.run_spmd(body, folder, ranks=2) and None

    def checkpoint(folder: Path, grid: sg.ProcessGrid, u: sg.ShardedArray) -> None:
        kinds = (np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM)
        numbers = [np.random.Generator(each(3)) for each in kinds]
        fields = np.zeros(3, [("a", "<f4"), ("b", "<i2", (2,))])
        inside = {"v": np.arange(5), "z": (1.5, 2j, b"xy", None, np.float32(3)), "f": fields}
        sg.save(
            folder, {"u": u, "in": inside, "rng": numbers, "own": sg.random.Generator(7), "step": 3}, block_bytes=64
        )

    def links(folder: Path, grid: sg.ProcessGrid, u: sg.ShardedArray) -> None:
        if grid.rank == 0:
            sg.LinkModel(node_size=2).save(folder / "links.json")

    def trace(folder: Path) -> None:
        program = folder / "program.py"
        program.write_text(
            "import numpy as np, spmd_grid as sg\ngrid = sg.init_grid((-1,))\n"
            "for i in range(3): sg.shift(np.ones(4), grid, [0], 0, 1)\n"
            "sg.all_reduce(1.0, grid)\nsg.send.start(np.ones(3), grid, [0], [grid.rank]); sg.recv(grid, [0])\n"
        )
        os.environ["SPMD_GRID_TRACE"] = str(folder)
        try:
            command(["run", "-n", "2", str(program)])
        finally:
            del os.environ["SPMD_GRID_TRACE"]

    found = {
        "checkpoint": on_ranks(checkpoint),
        "npy": on_ranks(lambda folder, grid, u: sg.save_npy(folder / "u.npy", u)),
        "links": on_ranks(links),
        "trace": trace,
    }
    if importlib.util.find_spec("zarr"):
        found["zarr"] = on_ranks(lambda folder, grid, u: sg.save_zarr(folder / "u.zarr", {"u": u}))
    if importlib.util.find_spec("h5py"):
        found["hdf5"] = on_ranks(lambda folder, grid, u: sg.save_hdf5(folder / "u.h5", {"u": u}))
    return found


def calls(kind: str, folder: Path, grid: sg.ProcessGrid) -> Calls:
    """The calls that read the files of a kind, on one of the ranks."""
    rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
    if kind == "checkpoint":
        return {
            "load": lambda: content(sg.load(folder, {"u": rows}, grid)),
            "load a part": lambda: content(sg.load(folder, {"u": columns}, grid, names=["u", "step"], stage_bytes=256)),
            "verify": lambda: sg.verify(folder, grid),
            "latest": lambda: sg.latest(folder, grid),
        }
    if kind == "npy":
        return {"load_npy": lambda: sg.load_npy(folder / "u.npy", columns, grid)}
    if kind == "zarr":
        return {"load_zarr": lambda: sg.load_zarr(folder / "u.zarr", rows, grid, name="u")}
    if kind == "hdf5":
        return {"load_hdf5": lambda: sg.load_hdf5(folder / "u.h5", "u", columns, grid)}
    if kind == "links":
        return {
            "LinkModel.load": lambda: sg.LinkModel.load(folder / "links.json"),
            "LinkModel.measure": lambda: sg.LinkModel.measure(grid, folder / "links.json"),
        }
    return {"read_trace": lambda: trace_summary(read_trace(folder))}


def change(rng: random.Random, kind: str, folder: Path) -> str:
    """Change one file of a kind; says how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py")
    path = rng.choice(files)
    if kind == "checkpoint" and rng.random() < 0.7:
        path = next(each for each in files if each.name == "manifest.json")
    if path.suffix == ".json" and kind == "trace" and rng.random() < 0.8:
        return change_lines(rng, path)
    if path.suffix == ".json" and kind != "trace" and rng.random() < 0.8:
        return change_json(rng, path, has_digest=kind == "checkpoint")
    return change_bytes(rng, path)


def is_plain(text: str) -> bool:
    return all(letter.isprintable() or letter in "\n\t" for letter in text)


def content(part: Any) -> str:
    """The values of a part of a state, bit by bit, as text.  Collective over the grid."""
    if isinstance(part, dict):
        return "{" + ", ".join([f"{key!r}: {content(value)}" for key, value in part.items()]) + "}"
    if isinstance(part, list | tuple):
        return f"{type(part).__name__}({', '.join(map(content, part))})"
    if isinstance(part, np.random.Generator):
        return f"Generator({content(part.bit_generator.state)})"
    if isinstance(part, sg.random.Generator):
        return f"sg.Generator({content(part.state)})"
    if isinstance(part, sg.ShardedArray):
        return f"sharded {content(part.to_global())}"
    if isinstance(part, np.ndarray | np.generic):
        return f"{type(part).__name__} {part.dtype.descr} {part.shape} {part.tobytes().hex()}"
    return repr(part)


def read_all(kind: str, folder: Path) -> list[tuple[str, str, str]]:
    """The outcome of every call on one rank: that it loaded, or the error; and the values.  A program for the ranks."""
    grid = sg.init_grid((-1,))
    found = []
    for name, call in calls(kind, folder, grid).items():
        try:
            outcome, values = "loaded", ""
            result = call()
            if name.startswith("load") and kind == "checkpoint":
                values = result
            if (name == "verify" and result) or (name == "latest" and result is None):
                outcome = "\n".join(result or ["none is whole"])
        except ALLOWED as error:
            outcome = f"{type(error).__name__}: {error}"
            if isinstance(error, sg.CutOffError):
                raise AssertionError(f"{name} was cut off: {error}") from error
        found.append((name, outcome, values))
        if float(sg.all_reduce(1.0, grid)) != grid.size:
            raise AssertionError(f"after {name} an all_reduce is wrong")
    return found


def printed(kind: str, folder: Path) -> str:
    """The text that the commands print about the files of a kind."""
    words = [["checkpoint", each, str(folder)] for each in COMMANDS] if kind == "checkpoint" else []
    words += [["trace", str(folder)]] if kind == "trace" else []
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        for each in words:
            command(each)
    return text.getvalue()


def check(kind: str, folder: Path, ranks: int, saved: list[tuple[str, str, str]] | None = None) -> str:
    """The word for what came of a case.  Raises AssertionError where the rule is broken, or what a defect raises.

    ``saved``: what the calls find in the files before the change, if what loads must be equal.
    """
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = sg.run_spmd(read_all, kind, folder, ranks=ranks, timeout=MOST_SECONDS)
    for name, outcome, _ in (each for rank in outcomes for each in rank):
        assert is_plain(outcome), f"{name} prints a control character: {outcome!a}"
    assert all(each == outcomes[0] for each in outcomes), f"the ranks differ: {outcomes}"
    for (name, outcome, values), (_, _, right) in zip(outcomes[0], saved or outcomes[0], strict=True):
        assert outcome != "loaded" or values == right, f"{name} loads other values: {values}\nsaved: {right}"
    text = printed(kind, folder)
    assert is_plain(text), f"a command prints a control character: {text!a}"
    took = time.monotonic() - began
    assert took < MOST_SECONDS, f"it took {took:.1f} s"
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert more < MOST_MEMORY, f"it took {more >> 20} MiB of memory"
    words = {
        outcome.partition(":")[0].partition("\n")[0] if outcome != "loaded" else outcome
        for _, outcome, _ in outcomes[0]
    }
    return "loaded" if words == {"loaded"} else "refused" if "loaded" not in words else "refused in part"


def run(cases: int, seed: int, first: int = 0) -> tuple[Counter[str], str]:
    """The counts of outcomes by kind, and the text of the first case that breaks the rule, empty if none does."""
    counts: Counter[str] = Counter()
    hard = resource.getrlimit(resource.RLIMIT_AS)
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sources = {}
        for kind, make in makers().items():
            sources[kind] = Path(temporary) / kind
            sources[kind].mkdir()
            make(sources[kind])
        saved = sg.run_spmd(read_all, "checkpoint", sources["checkpoint"], ranks=2)[0]
        folder = Path(temporary) / "case"
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE + _address_space(), hard[1]))
        try:
            for case in range(first, cases):
                rng = random.Random(f"{seed} {case}")
                kind = rng.choice(["checkpoint", "checkpoint", *sources])
                shutil.copytree(sources[kind], folder)
                how = change(rng, kind, folder)
                right = saved if kind == "checkpoint" and not how.endswith(DIGESTED) else None
                try:
                    counts[f"{kind} {check(kind, folder, rng.choice([2, 3]), right)}"] += 1
                except Exception:
                    files = [
                        f"--- {path.name}\n{path.read_bytes()[:4000]!r}" for path in folder.rglob("*") if path.is_file()
                    ]
                    head = f"case {case} of seed {seed}, {kind}, {how}:\n{traceback.format_exc()}"
                    return counts, "\n".join([head, *files])
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, hard)
    return counts, ""


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="begin with this case")
    options = parser.parse_args()
    counts, failure = run(options.cases, options.seed, options.first)
    for name, n in sorted(counts.items()):
        print(f"{n:6d}  {name}")
    if failure:
        print(ascii(failure).replace("\\n", "\n"))
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
