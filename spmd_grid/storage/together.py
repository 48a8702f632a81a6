"""Work with files that every process does by itself, and whose errors all processes raise alike."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from spmd_grid.errors import MismatchError, SpmdError, StorageError
from spmd_grid.exchange.agreement.learn_facts import encode_error, error_from, swap_texts
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["agree", "first_alone", "together"]

Result = TypeVar("Result")


def together(op: str, grid: ProcessGrid, work: Callable[[], Result]) -> list[Result]:
    """The results of ``work()`` on all processes, in the order of devices.

    Collective over the grid.  Where it raises on one process, all processes raise the same error, of the first one.
    Errors of the system and of libraries become `StorageError`.
    """
    try:
        mine = pickle.dumps((None, work()))
    except SpmdError as error:
        mine = pickle.dumps((encode_error(error), None))
    except Exception as error:  # of the system, or of a library that reads a file: the others must learn of it
        mine = pickle.dumps((encode_error(StorageError(f"{op}: process {grid.rank}: {_text(error)}")), None))
    outcomes = [pickle.loads(text) for text in swap_texts(grid.group(tuple(range(grid.ndim))), mine)]
    for refusal, _ in outcomes:
        if refusal is not None:
            raise error_from(refusal)
    return [result for _, result in outcomes]


def first_alone(op: str, grid: ProcessGrid, work: Callable[[], Result]) -> Result:
    """The result of ``work()`` on the first process, on all processes.  Collective over the grid; as `together`."""

    def work_of_first() -> Result | None:
        return work() if grid.process_linear_index() == 0 else None

    result: Any = together(op, grid, work_of_first)[0]
    return result


def agree(op: str, grid: ProcessGrid, describe: Callable[[], str]) -> None:
    """Refuse a call that is not the same on all processes, by its description.

    Collective over the grid.  Raises `MismatchError`, and the errors of ``describe()``.
    """
    found = together(op, grid, describe)
    if len(set(found)) > 1:
        other = next(i for i, text in enumerate(found) if text != found[0])
        raise MismatchError(
            f"{op}: processes pass different arguments; they must be equal\n"
            f"  device 0: {found[0]}\n  device {other}: {found[other]}"
        )


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename!r}" if error.filename is not None else ""
        return f"{error.strerror}{place}"
    return f"{type(error).__name__}: {error}"
