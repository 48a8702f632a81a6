"""Shardings in the words of GSPMD, ``mhlo.sharding = "{devices=[2,1]<=[2]}"``, which are refused where they cut.

Types beside them are global, and nothing else in the text says so: a run that ignored them would compute other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from spmd_grid.dialect.syntax.positions import verify_error

__all__ = ["check_gspmd"]

_WORD = "mhlo.sharding"


def check_gspmd(operation: Operation, module: ModuleOp) -> None:
    """Refuse an operation with such a sharding, unless it cuts nothing.  Raises DialectVerifyError.

    Local types have nothing to cut where a sharding is ``{manual}``, and whole arrays where one partition has all.
    """
    allowed = {"{manual}"} if _partitions(module) > 1 else {"{manual}", "{replicated}"}
    for found in _shardings(operation):
        text = found.data if isinstance(found, StringAttr) else str(found)
        if text.replace(" ", "") not in allowed:
            raise verify_error(
                operation,
                f"{_WORD} is {text}, a sharding of GSPMD, which is not read; write shard.sharding and shard.shard",
            )


def _shardings(operation: Operation) -> Iterator[Attribute]:
    every = {**operation.attributes, **operation.properties}
    for found in every.values():
        for each in found if isinstance(found, ArrayAttr) else ():  # the arguments and the results of a function
            if isinstance(each, DictionaryAttr) and _WORD in each.data:
                yield each.data[_WORD]
    if _WORD in every:
        yield every[_WORD]


def _partitions(module: ModuleOp) -> int:
    found = module.attributes.get("mhlo.num_partitions")
    return int(found.value.data) if isinstance(found, IntegerAttr) else 1
