"""Our own operations: each is a step of a plan, or a function with a sharding rule, with arguments that its rule takes.

Nothing else that a text names is called, and no attribute is handed to a function that has no such argument.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnregisteredOp

import spmd_grid.compute.protocol  # noqa: F401 - it fills the table of rules
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.functions.names import arguments_of, function_named
from spmd_grid.program.text.calls import MANUAL, OPAQUE, STEPS

__all__ = ["check_own"]

# What a call of ours says about itself beside the arguments of its function; the parser keeps a name as the first.
_ABOUT = {"op_name__", "collective", "of", "of_types", "operands", "sharding", "sources", "targets"}
_OF_NO_FUNCTION = STEPS | {MANUAL, OPAQUE}
_PART = re.compile(r"spmd_grid\.\w+_(total|finish)")  # of a function that ``of`` names


def check_own(operation: UnregisteredOp) -> None:
    """Refuse names that are neither, and arguments that a function does not take.  Raises DialectVerifyError."""
    name, of = operation.op_name.data, operation.attributes.get("of")
    called = of.data if isinstance(of, StringAttr) else name
    for each in (called,) if of is not None and _PART.fullmatch(name) else (called, name):
        if each not in _OF_NO_FUNCTION and function_named(each) is None:
            required = "it must be a function with a sharding rule, or a step of a plan"
            what = "it" if each == name else each
            raise verify_error(operation, f"{what} is no function that a text may call; {required}")
    function = function_named(called)
    if name in _OF_NO_FUNCTION or function is None:
        return
    arguments = arguments_of(function)
    named = operation.attributes.get("operands")
    words = {each.data for each in named if isinstance(each, StringAttr)} if isinstance(named, ArrayAttr) else set()
    for word in (*(operation.attributes.keys() - _ABOUT), *words):
        if word not in arguments:
            known = ", ".join(sorted(arguments)) or "none"
            raise verify_error(operation, f"there is no argument {word}; those that its rule takes are {known}")
