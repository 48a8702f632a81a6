"""``python -m spmd_grid checkpoint``: checkpoints listed, verified and described."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spmd_grid.bench.common.launch import inside_a_job
from spmd_grid.cli.option_types import given
from spmd_grid.cli.reporting import reported_with_code
from spmd_grid.errors import DamagedError, StorageError
from spmd_grid.formatting import aligned, bytes_text, count_text, printable
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.random import Generator
from spmd_grid.storage.checkpoint.folders import partial_numbers, published, remove_unfinished
from spmd_grid.storage.checkpoint.manifest import Manifest
from spmd_grid.storage.checkpoint.tree import from_tree
from spmd_grid.storage.checkpoint.verify import checkpoint_at, is_checkpoint, read_manifest, verify
from spmd_grid.storage.owners import PARTIAL, fate_of
from spmd_grid.storage.paths import Folders
from spmd_grid.storage.system import System

__all__ = ["add_parser"]

_WHOLE, _DAMAGED = 0, 1  # exit codes; 2 is that of refusals
_LONGEST = 60  # letters of a value
Outcome = tuple[str, int]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "checkpoint",
        help="list, verify and describe checkpoints",
        description="Reads checkpoints that spmd_grid.save has written. Exit codes: 0 if they are whole, 1 if one is"
        " damaged or there is none, 2 if nothing could be read.",
    )
    actions = parser.add_subparsers(metavar="action", required=True)
    for name, action, text in (
        ("ls", _list, "list the checkpoints of a folder, and what programs have left unfinished"),
        ("verify", _verify, "read every byte and compare the checksums; under mpiexec each process reads a share"),
        ("clean", _clean, "remove what programs have left unfinished, unless a running one holds its lock"),
        ("show", _show, "describe the state in a checkpoint, the newest if PATH is a folder of several"),
    ):
        each = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        each.add_argument("path", type=given, metavar="PATH", help="a checkpoint, or the folder that programs save to")
        each.set_defaults(command=reported_with_code("checkpoint", action))


def _list(options: argparse.Namespace) -> Outcome:
    root, system = _folder(options.path), System()
    rows, code = [("checkpoint", "step", "arrays", "size", "manifest")], _WHOLE
    for folder in _checkpoints(system, root):
        try:
            manifest = read_manifest(system, "ls", folder)
        except DamagedError as error:
            rows.append((folder.name, "-", "-", "-", f"damaged: {error}"))
            code = _DAMAGED
            continue
        size = sum(each.n_bytes for each in manifest.arrays.values())
        step = "-" if manifest.step is None else str(manifest.step)
        rows.append((folder.name, step, str(len(manifest.arrays)), bytes_text(size), "valid"))
    lines = aligned(rows, left=(0, 4)) if len(rows) > 1 else [f"there is no checkpoint in {root}"]
    for number in [] if is_checkpoint(system, root) else partial_numbers(Folders(system, "ls"), root):
        hidden = root / f".save-{number:06d}{PARTIAL}"
        lines.append(f"{hidden.name} {fate_of(system, hidden).value}")
    return "\n".join(lines), code if len(rows) > 1 else _DAMAGED


def _verify(options: argparse.Namespace) -> Outcome:
    root, system = _folder(options.path), System()
    grid = init_grid((-1,)) if inside_a_job() else None
    lines, code = [], _WHOLE
    for folder in _checkpoints(system, root):
        problems = verify(folder, grid)
        if problems:
            code = _DAMAGED
            lines += [f"{folder.name} is damaged:", *[f"  {text}" for text in problems]]
        else:
            size = sum(each.n_bytes for each in read_manifest(system, "verify", folder).arrays.values())
            lines.append(f"{folder.name} is whole: {bytes_text(size)} read{_by(grid)}")
    if not lines:
        lines, code = [f"there is no checkpoint in {root}"], _DAMAGED
    return "\n".join(lines) if grid is None or grid.rank == 0 else "", code


def _clean(options: argparse.Namespace) -> Outcome:
    root = _folder(options.path)
    removed = remove_unfinished(Folders(System(), "clean"), root, sure=True)
    return "\n".join([f"removed {each.name}" for each in removed] or ["there is nothing to remove"]), _WHOLE


def _show(options: argparse.Namespace) -> Outcome:
    root, system = _folder(options.path), System()
    folder = checkpoint_at(system, "show", root)
    try:
        manifest = read_manifest(system, "show", folder)
    except DamagedError as error:
        return str(error), _DAMAGED
    rows = [("name", "value", "size", "blocks"), *_rows(manifest, _state_of(manifest), "")]
    lines = [f"{folder}: {count_text(len(manifest.arrays), 'array')}", "", *aligned(rows, left=(0, 1))]
    for name, value in manifest.attributes.items():
        lines.append(printable(f"attribute {name}: {value}"))
    return "\n".join(lines), _WHOLE


class _Array:
    """The path to an array in a state."""

    def __init__(self, name: str, is_sharded: bool):
        self.name, self.is_sharded = name, is_sharded


def _state_of(manifest: Manifest) -> Any:
    return from_tree("show", manifest.tree, _Array, lambda name: True)


def _rows(manifest: Manifest, value: Any, name: str) -> Iterator[tuple[str, str, str, str]]:
    """A row for every array and every other value."""
    if isinstance(value, dict | list | tuple) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _rows(manifest, each, f"{name}/{key}" if name else str(key))
    elif isinstance(value, _Array):
        stored = manifest.arrays[value.name]
        kind = "sharded array" if value.is_sharded else "array"
        shape = "x".join(map(str, stored.shape)) or "no dimensions"
        yield (
            printable(name),
            f"{kind}, {stored.dtype}, {shape}",
            bytes_text(stored.n_bytes),
            str(len(stored.checksums)),
        )
    else:
        yield printable(name), _text_of(value), "", ""


def _text_of(value: Any) -> str:
    if isinstance(value, np.random.Generator):
        return f"random generator, numpy's {type(value.bit_generator).__name__}"
    if isinstance(value, Generator):
        return "random generator, of spmd_grid"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _by(grid: ProcessGrid | None) -> str:
    return "" if grid is None else f" by {grid.size} process{'es' if grid.size > 1 else ''}"


def _folder(path: str) -> Path:
    found = Path(path)
    if not found.is_dir():
        raise StorageError(f"{path!r} is no folder; give a checkpoint, or the folder that a program saves to")
    return found


def _checkpoints(system: System, root: Path) -> list[Path]:
    """The folder itself, if it is a checkpoint, or all that it holds, oldest first."""
    if is_checkpoint(system, root):
        return [root]
    return [folder for _, folder in published(Folders(system, "checkpoint"), root)]
