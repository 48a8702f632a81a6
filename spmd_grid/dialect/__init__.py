"""Text of MLIR's shard dialect: read, checked, and printed.  Needs the package xdsl.

syntax      operations, attributes and types; positions; reading and printing
verify      rules beyond those of the text's form
rewrite     smaller programs of the same meaning
partition   annotated functions as programs
execute     functions run on arrays
running     the command that runs a module
"""

from __future__ import annotations

try:
    import xdsl as _xdsl  # noqa: F401
except ImportError as error:
    raise ImportError(
        "programs of the dialect are read with xdsl, which is not installed; the extra [mlir] installs it"
    ) from error

from collections.abc import Mapping
from threading import Lock

from xdsl.dialects.builtin import ModuleOp

from spmd_grid.dialect.rewrite.simplify import simplify
from spmd_grid.dialect.syntax.grid_shapes import set_grid_shapes
from spmd_grid.dialect.syntax.positions import Position, position_of
from spmd_grid.dialect.syntax.printer import to_text
from spmd_grid.dialect.syntax.reader import read
from spmd_grid.dialect.verify.module import verify
from spmd_grid.typing import Shape

__all__ = ["Position", "parse", "position_of", "simplify", "to_text", "verify"]


# xdsl keeps what it is building in variables of its modules, and simulated ranks are threads.
_READING = Lock()


def parse(text: str, file_name: str = "<text>", *, grid_shapes: Mapping[str, Shape] | None = None) -> ModuleOp:
    """The module of a text, read and verified.  Local.

    ``grid_shapes``: the shapes of grids whose sizes the text leaves open, by symbol.

    DialectSyntaxError for a text that is no program, DialectVerifyError for operations that contradict their types or
    grids; both begin with file, line and column.

    >>> module = parse("shard.grid @grid0(shape = 2x3)", "grid.mlir")
    >>> [operation.sizes for operation in module.ops]
    [(2, 3)]
    >>> position_of(module.body.first_block.first_op)
    Position(file_name='grid.mlir', line=1, column=1)
    """
    with _READING:
        module = read(text, file_name)
        set_grid_shapes(module, grid_shapes or {})
        verify(module)
    return module
