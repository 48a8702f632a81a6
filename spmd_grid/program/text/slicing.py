"""Whole arguments cut to the blocks of a process: the second form of the RFC's partition."""

from __future__ import annotations

from dataclasses import replace

from spmd_grid.grid.layout import Layout
from spmd_grid.program.partition.steps import LocalValue
from spmd_grid.program.text.layouts import step_layouts
from spmd_grid.program.text.lines import GRID, Lines
from spmd_grid.program.text.types import local_type, tensor_type

__all__ = ["Slicing"]

_Number = int | str  # a known index, or the name of one


class Slicing:
    """Writes the slices of whole arguments by the index of the process, which is asked for once."""

    def __init__(self, lines: Lines):
        self._lines = lines
        self._index = ""

    def slice(self, x: LocalValue, name: str) -> str:
        """The name of the block of the whole array ``name``."""
        sharding, lines = x.sharding, self._lines
        cells = [self._block(x, dim) if sharding.axes_of(dim) else (0, n) for dim, n in enumerate(x.shape)]
        starts, sizes = ([str(each[side]) for each in cells] for side in (0, 1))
        strides = ["1"] * len(cells)
        shown = "".join(f" [{', '.join(each)}]" for each in (starts, sizes, strides)).lstrip()
        core = replace(sharding, halo_sizes=None)
        kind = local_type(core, x.shape, x.dtype)
        cut = lines.define(f"tensor.extract_slice {name}{shown} : {tensor_type(x.shape, x.dtype)} to {kind}")
        if sharding.halo_sizes is None:
            return cut
        layouts = step_layouts(Layout(core, x.shape), Layout(sharding, x.shape), x.dtype)
        whole = local_type(sharding, x.shape, x.dtype)
        return lines.define(lines.calls.text("spmd_grid.make_room", [(cut, kind)], [whole], layouts))

    def _coordinate(self, axis: int) -> str:
        n = self._lines.grid.ndim
        if not self._index:
            types = ", ".join(["index"] * n)
            self._index = self._lines.new_name()
            text = f"shard.process_multi_index on {GRID} axes = {list(range(n))} : {types}"
            self._lines.define(text, f"{self._index}:{n}" if n > 1 else self._index)
        return f"{self._index}#{axis}" if n > 1 else self._index

    def _block(self, x: LocalValue, dim: int) -> tuple[_Number, _Number]:
        """The start and the size of the block of a dimension."""
        sharding, lines = x.sharding, self._lines
        axes, extent = sharding.axes_of(dim), x.shape[dim]
        offsets = sharding.offsets_of(dim)
        if offsets is not None or sharding.blocks != "ceil":
            names = [(self._coordinate(axis), "index") for axis in axes]
            rule = f"offsets = {list(offsets)}" if offsets is not None else f'blocks = "{sharding.blocks}"'
            sizes = [f"sizes = {list(sharding.sizes_of(dim))}", f"extent = {extent}"]
            name = lines.new_name()
            lines.define(lines.calls.text("spmd_grid.block", names, ["index"] * 2, [rule, *sizes]), f"{name}:2")
            return f"{name}#0", f"{name}#1"
        start: _Number = 0
        size: _Number = extent
        for axis in axes:
            first, size = self._nested(size, lines.grid.shape[axis], axis)
            start = first if start == 0 else self._binary("addi", start, first)
        return start, size

    def _nested(self, size: _Number, n: int, axis: int) -> tuple[_Number, _Number]:
        """The start and the size of block number ``coordinate of axis`` of n, in ceil blocks."""
        chunk: _Number
        if isinstance(size, int):
            chunk = -(-size // n)
            start = self._binary("muli", self._coordinate(axis), chunk)
            if size % n == 0:
                return start, chunk
        else:
            chunk = self._binary("ceildivui", size, n)
            start = self._binary("muli", self._coordinate(axis), chunk)
        start = self._binary("minui", start, size)
        return start, self._binary("minui", chunk, self._binary("subi", size, start))

    def _binary(self, name: str, a: _Number, b: _Number) -> str:
        names = [self._lines.index(x) if isinstance(x, int) else x for x in (a, b)]
        return self._lines.define(f"arith.{name} {', '.join(names)} : index")
