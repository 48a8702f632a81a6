"""Sizes of grids that a text leaves open, set by whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64

from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.syntax.shard.shardings import GridOp
from spmd_grid.errors import ArgumentError
from spmd_grid.typing import Shape

__all__ = ["set_grid_shapes"]


def set_grid_shapes(module: ModuleOp, shapes: Mapping[str, Shape]) -> None:
    """Give grids their shapes by symbol; "" stands for the only grid that has open sizes.

    Local.  Raises ArgumentError for a grid that is not there, DialectVerifyError for a shape that is not the text's.
    """
    grids = {op.sym_name.data: op for op in module.ops if isinstance(op, GridOp)}
    for name, shape in shapes.items():
        named = [op for each, op in grids.items() if each == name or (not name and None in op.sizes)]
        if len(named) != 1:
            known = ", ".join(f"@{each}" for each in grids) or "none"
            wanted = (
                f"there is no grid @{name}" if name else f"{len(named)} grids have open sizes; the shape names its own"
            )
            raise ArgumentError(f"{wanted}: a shape is given as NAME=2x3; the grids of the module are {known}")
        (op,) = named
        if len(shape) != len(op.sizes) or any(have not in (None, n) for have, n in zip(op.sizes, shape)):
            asked, text = ("x".join("?" if n is None else str(n) for n in each) for each in (shape, op.sizes))
            raise verify_error(
                op, f"the shape {asked} is asked for; the text has {text}, of which each ? may be a number"
            )
        op.properties["shape"] = DenseArrayBase.from_list(i64, list(shape))
