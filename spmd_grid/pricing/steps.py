"""The steps of a program to be priced: halo exchanges, operations and reshardings, made by hand or read from a file.

The file holds a JSON list with an object per step.  ``times`` (1) says how often a step runs, ``dtype`` (float64) the
type of its array; axes are numbers or names of the grid's axes:

    [
      {"step": "halo", "shape": [4096, 4096], "sharding": [[0], [1]], "halo": [1, 1, 1, 1], "times": 100,
       "periodic": false, "corners": true, "fields": 1},
      {"step": "all_reduce", "bytes": 8, "axes": [0, 1], "times": 100},
      {"step": "reshard", "shape": [4096, 4096], "from": [[0], [1]], "to": [[1], [0]], "strategy": "auto"}
    ]

The last three entries of a halo, and ``strategy``, may be left out: they are as above then.  ``bytes`` is the size of
every member's array, or of root's for a broadcast and a scatter; it may be a text such as "2MiB".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spmd_grid.errors import DTypeError, ShardingError, SpmdError, StorageError
from spmd_grid.formatting import bytes_text
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.links.costs import PRICED_OPERATIONS
from spmd_grid.links.model import LinkModel
from spmd_grid.numerals import byte_count
from spmd_grid.reshard.plan import Plan, plan_reshard

__all__ = ["HaloExchangeStep", "OperationStep", "ReshardStep", "Step", "read_steps"]


class HaloExchangeStep(NamedTuple):
    """An exchange of the halos of ``fields`` arrays, of ``itemsize`` bytes per cell; ``times`` of them."""

    pattern: HaloPattern
    itemsize: int
    times: int = 1
    fields: int = 1

    @property
    def text(self) -> str:
        """The text of the step."""
        layout = self.pattern.layout
        fields = f", {self.fields} fields" if self.fields > 1 else ""
        sizes = ", ".join([f"{low}+{high}" for low, high in layout.sharding.halo_sizes or ()])
        return f"halo {sizes} of {_by(layout.global_shape)} as {_cuts(layout)}{fields}"


class OperationStep(NamedTuple):
    """The operation ``name`` over ``axes`` (numbers) on arrays of ``n_bytes``; ``times`` of them."""

    name: str
    n_bytes: int
    axes: tuple[int, ...]
    times: int = 1

    @property
    def text(self) -> str:
        """The text of the step."""
        return f"{self.name} of {bytes_text(self.n_bytes)} over {list(self.axes)}"


class ReshardStep(NamedTuple):
    """A resharding by its plan, which carries the model of the links; ``times`` of them."""

    plan: Plan
    times: int = 1

    @property
    def text(self) -> str:
        """The text of the step."""
        source, target = self.plan.source, self.plan.target
        return f"reshard {_by(source.global_shape)} from {_cuts(source)} to {_cuts(target)}"


Step: TypeAlias = HaloExchangeStep | OperationStep | ReshardStep


def read_steps(path: str | PathLike[str], grid: Grid, links: LinkModel) -> list[Step]:
    """The steps in a file, on ``grid``; reshardings are planned for ``links``.

    Plans only.  Raises StorageError where the file cannot be read, SpmdError, with the number of the step, where it
    holds anything else.
    """
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"steps: {Path(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise ShardingError(f"steps: {Path(path)} is no JSON: {error}") from None
    if not isinstance(found, list) or not found:
        raise ShardingError(f"steps: {Path(path)} must hold a list of steps, with at least one")
    steps = []
    for n, entry in enumerate(found, 1):
        try:
            steps.append(_step(entry, grid, links))
        except SpmdError as error:
            raise type(error)(f"steps: step {n} of {Path(path)}: {error}") from None
    return steps


def _step(entry: object, grid: Grid, links: LinkModel) -> Step:
    kinds = ["halo", *PRICED_OPERATIONS, "reshard"]
    kind = entry.get("step") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or kind not in kinds:
        raise ShardingError(f'"step" is {kind!r}; it must be one of {", ".join(kinds)}')
    if kind == "halo":
        return _halo(_Entries(entry), grid)
    if kind == "reshard":
        return _reshard(_Entries(entry), grid, links)
    return _operation(_Entries(entry), grid)


class _Entries:
    """The entries of a step: each is taken once, and what is left over is refused."""

    def __init__(self, entries: Mapping[str, Any]):
        self._left = dict(entries)
        self.kind = self._left.pop("step")

    def take(self, name: str, rule: str, check: Callable[[Any], Any], default: Any = None) -> Any:
        """The entry as ``check`` makes it, which gives None for what it refuses.  Raises ShardingError."""
        if name not in self._left and default is None:
            raise ShardingError(f'there is no "{name}"; it must be {rule}')
        value = self._left.pop(name, default)
        found = check(value)
        if found is None:
            raise ShardingError(f'"{name}" is {value!r}; it must be {rule}')
        return found

    def count(self, name: str) -> int:
        return self.take(name, "a whole number, at least 1", _positive, 1)

    def flag(self, name: str, default: bool) -> bool:
        return self.take(name, "true or false", lambda value: value if isinstance(value, bool) else None, default)

    def itemsize(self) -> int:
        return self.dtype().itemsize

    def dtype(self) -> np.dtype:
        try:
            return np.dtype(self.take("dtype", "a dtype of numpy", _text, "float64"))
        except TypeError as error:
            raise DTypeError(f'"dtype" is no dtype of numpy: {error}') from None

    def layout(self, grid: Grid, name: str, **options: Any) -> Layout:
        axes = self.take(name, "a list of lists of grid axes", _lists)
        return Layout(Sharding(grid, axes, **options), self._shape)

    def shape(self) -> tuple[int, ...]:
        self._shape = self.take("shape", "a list of extents", as_ints)
        return self._shape

    def finish(self) -> None:
        """Refuse entries that no one has taken.  Raises ShardingError."""
        if self._left:
            raise ShardingError(f"a step of {self.kind} has no entry {', '.join(map(repr, sorted(self._left)))}")


def _halo(entries: _Entries, grid: Grid) -> HaloExchangeStep:
    entries.shape()
    sizes = entries.take("halo", "a list of the low and high sizes of every dimension", as_ints)
    layout = entries.layout(grid, "sharding", halo_sizes=list(sizes))
    periodic = (entries.flag("periodic", False),) * layout.ndim
    pattern = HaloPattern(layout, periodic, entries.flag("corners", True))
    step = HaloExchangeStep(pattern, entries.itemsize(), entries.count("times"), entries.count("fields"))
    entries.finish()
    return step


def _operation(entries: _Entries, grid: Grid) -> OperationStep:
    n_bytes = entries.take("bytes", 'a number of bytes, such as 8 or "2MiB"', _bytes)
    axes = grid.axes(entries.take("axes", "a list of grid axes", _list), "axes")
    step = OperationStep(str(entries.kind), n_bytes, axes, entries.count("times"))
    entries.finish()
    return step


def _reshard(entries: _Entries, grid: Grid, links: LinkModel) -> ReshardStep:
    shape = entries.shape()
    source, target = (entries.layout(grid, name).sharding for name in ("from", "to"))
    strategy = entries.take("strategy", "the name of a strategy", _text, "auto")
    step = ReshardStep(
        plan_reshard(source, target, shape, entries.dtype(), strategy, links=links), entries.count("times")
    )
    entries.finish()
    return step


def _positive(value: object) -> int | None:
    found = as_ints((value,))
    return found[0] if found and found[0] > 0 and not isinstance(value, bool) else None


def _bytes(value: object) -> int | None:
    if isinstance(value, str):
        try:
            return byte_count(value)
        except ValueError:
            return None
    found = as_ints((value,))
    return found[0] if found and found[0] >= 0 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _lists(value: object) -> list[Any] | None:
    return value if isinstance(value, list) and all(isinstance(axes, list) for axes in value) else None


def _cuts(layout: Layout) -> str:
    """The axes that cut each dimension: [[0],[1, 2]]."""
    return f"[{','.join([str(list(layout.sharding.axes_of(dim))) for dim in range(layout.ndim)])}]"


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
