"""Rules on the order of a program: values are defined before they are used, calls name functions that fit."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl.dominance import strictly_dominates

from spmd_grid.dialect.syntax.positions import verify_error

__all__ = ["check_call", "check_order", "functions_of"]


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


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The functions of a module by name."""
    return {each.sym_name.data: each for each in module.walk() if isinstance(each, FuncOp)}


def check_call(operation: CallOp, functions: dict[str, FuncOp]) -> None:
    """A call names a function, and passes and takes its types."""
    name = operation.callee.string_value()
    function = functions.get(name)
    if function is None:
        known = ", ".join([f"@{each}" for each in functions]) or "none"
        raise verify_error(operation, f"the function @{name} is not defined; defined are: {known}")
    passed, taken = [x.type for x in operation.operands], [x.type for x in operation.results]
    wanted, given = list(function.function_type.inputs), list(function.function_type.outputs)
    for what, found, needed in (("arguments", passed, wanted), ("results", taken, given)):
        if found != needed:
            raise verify_error(operation, f"the {what} of @{name} are ({_types(needed)}), found ({_types(found)})")


def _types(kinds: list) -> str:
    return ", ".join(map(str, kinds))
