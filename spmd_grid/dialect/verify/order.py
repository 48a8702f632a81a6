"""Rules on the order of a program: values are defined before they are used, and names given once."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl.dominance import strictly_dominates

from spmd_grid.dialect.syntax.positions import verify_error

__all__ = ["check_names", "check_order"]


def check_order(operation: Operation) -> None:
    """Every operand is defined before the operation, in its block or around it."""
    for n, operand in enumerate(operation.operands):
        if not _is_before(operand, operation):
            name = f"%{operand.name_hint}" if operand.name_hint else f"operand {n}"
            raise verify_error(operation, f"{name} is used before it is defined, or outside its region")


def _is_before(value: SSAValue, user: Operation) -> bool:
    """Whether a value is defined where ``user`` may use it."""
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    at: Operation | None = user
    while at is not None:
        block = at.parent
        if block is home:
            return isinstance(owner, Block) or (block is not None and owner is not at and owner.is_before_in_block(at))
        if block is not None and home is not None and block.parent is not None and block.parent is home.parent:
            return strictly_dominates(home, block)
        at = at.parent_op()
    return False


def check_names(module: ModuleOp) -> None:
    """No name of a grid or function is given twice."""
    known = set()
    for operation in module.ops:
        name = operation.properties.get("sym_name")
        if isinstance(name, StringAttr):
            if name.data in known:
                raise verify_error(operation, f"the name @{name.data} is given twice")
            known.add(name.data)
