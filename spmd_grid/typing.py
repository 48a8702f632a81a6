"""Names for types of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Axis: TypeAlias = int | str
GridAxes: TypeAlias = Sequence[Axis]
SplitAxes: TypeAlias = Sequence[GridAxes]
Shape: TypeAlias = tuple[int, ...]
MultiIndex: TypeAlias = tuple[int, ...]
