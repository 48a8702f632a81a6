"""All rules, on every operation of a module."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.errors import DialectVerifyError

__all__ = ["verify"]


def verify(module: ModuleOp) -> None:
    """Check every operation.  DialectVerifyError for the first that is wrong, with its place.  Local."""
    for operation in module.walk():
        _verify_form(operation)


def _verify_form(operation: Operation) -> None:
    """Check operands, attributes, types and regions against the operation's definition."""
    try:
        operation.verify(verify_nested_ops=False)
    except DialectVerifyError:
        raise
    except Exception as error:
        # The definitions behind us raise their own kinds, and others on operations that no printer would write.
        lines = str(error).strip().splitlines()
        raise verify_error(operation, lines[-1].strip() if lines else type(error).__name__) from None
