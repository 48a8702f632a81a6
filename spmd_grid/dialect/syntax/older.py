"""Operations in older forms of the dialect: they are read, and become the operations of today.

The RFC of 2023 and the first `mesh` dialect: ``mesh.cluster``, ``mesh.annotate``, ``mesh.idx``, ``mesh.size``,
``mesh.local_split``; collectives whose parts are all attributes, on local types or on whole tensors with encodings; and
``mesh.shard %x to <@mesh0, [[0]], partial = sum[1]>``, with the sharding as an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_attr_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand

from spmd_grid.dialect.syntax.encodings import EncodingAttr

__all__ = ["OlderOp", "is_older", "lists_of", "older_class", "older_name"]

_COLLECTIVES = (
    "all_gather all_reduce all_slice all_to_all broadcast gather recv reduce reduce_scatter scatter send shift"
).split()
_OLDER = ["cluster", "annotate", "idx", "size", "local_split", "cluster_shape"]
# A collective whose operand is followed by attributes or types; today's says ``on`` its grid there.
_ATTRIBUTES_ONLY = re.compile(rf"mesh\.(?:{'|'.join(_COLLECTIVES)})\s+%[\w$.#-]+\s*[{{:]")
_SHARDED_BY_ATTRIBUTE = re.compile(r"mesh\.shard\s+%[\w$.#-]+\s+to\s*<")


class OlderOp(IRDLOperation):
    """An operation as it was written."""

    inputs = var_operand_def()
    outputs = var_result_def()
    bodies = var_region_def()
    sym_name = opt_attr_def(StringAttr)

    @classmethod
    def parse(cls, parser: Parser) -> OlderOp:
        """Read the pretty form of any of them: a name, an operand, what it is cut by, attributes, and types."""
        attributes: dict[str, Attribute] = {}
        if cls.name.removeprefix("mesh.") == "cluster":
            return cls._cluster(parser)
        if cls.name.removeprefix("mesh.") == "cluster_shape":
            return cls._cluster_shape(parser)
        if cls.name.removeprefix("mesh.") == "idx" and parser.parse_optional_punctuation("(") is not None:
            attributes["axis"] = IntegerAttr(parser.parse_integer(), i64)
            parser.parse_punctuation(")")
        is_index = cls.name.removeprefix("mesh.") in ("idx", "size")
        operand = None if is_index else parser.parse_optional_unresolved_operand()
        if operand is not None and cls.name.removeprefix("mesh.") == "shard":
            parser.parse_keyword("to")
            attributes["sharding"] = EncodingAttr.new(EncodingAttr.parse_parameters(parser))
            if parser.parse_optional_keyword("annotate_for_users") is not None:
                attributes["annotate_for_users"] = UnitAttr()
        attributes |= parser.parse_optional_attr_dict()
        return cls._typed(parser, operand, attributes)

    @classmethod
    def _typed(cls, parser: Parser, operand: UnresolvedOperand | None, attributes: dict[str, Attribute]) -> OlderOp:
        if operand is None:
            kind = i64 if parser.parse_optional_punctuation(":") is None else parser.parse_type()  # as the RFC uses it
            return cls.create(attributes=attributes, result_types=[kind])
        parser.parse_punctuation(":")
        source = parser.parse_type()
        target = source if parser.parse_optional_punctuation("->") is None else parser.parse_type()
        given = parser.resolve_operand(operand, source)
        return cls.create(operands=[given], attributes=attributes, result_types=[target])

    @classmethod
    def _cluster(cls, parser: Parser) -> OlderOp:
        """``@mesh0(rank = 2, dim_sizes = [2, 4])``, or with ``dim_sizes = 2x4``, or ``shape = 2x4``."""
        attributes: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        parser.parse_punctuation("(")
        for number, word in enumerate(("rank", "dim_sizes", "shape")):
            if number and attributes.keys() > {"sym_name"} and parser.parse_optional_punctuation(",") is None:
                break
            if parser.parse_optional_keyword(word) is not None:
                parser.parse_punctuation("=")
                found = [parser.parse_integer()] if word == "rank" else cls._sizes(parser)
                attributes[word] = DenseArrayBase.from_list(i64, found)
        parser.parse_punctuation(")")
        attributes |= parser.parse_optional_attr_dict()
        return cls.create(attributes=attributes)

    @staticmethod
    def _sizes(parser: Parser) -> list[int]:
        if parser.parse_optional_punctuation("[") is None:
            return parser.parse_dimension_list()
        found: list[int] = []
        while parser.parse_optional_punctuation("]") is None:
            if found:
                parser.parse_punctuation(",")
            found.append(parser.parse_integer(allow_boolean=False))
        return found

    @classmethod
    def _cluster_shape(cls, parser: Parser) -> OlderOp:
        attributes: dict[str, Attribute] = {"mesh": SymbolRefAttr(parser.parse_symbol_name())}
        if parser.parse_optional_keyword("axes") is not None:
            parser.parse_punctuation("=")
            found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            attributes["axes"] = DenseArrayBase.from_list(i64, found)
        attributes |= parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(attributes=attributes, result_types=types)


@cache
def older_class(name: str) -> type[Operation]:
    """The class that reads the older operation of a name such as ``mesh.annotate``."""
    short = name.removeprefix("mesh.")
    parts = {"name": name, "__module__": __name__}
    return irdl_op_definition(type(f"Older_{short}", (OlderOp,), parts))


def older_name(op: OlderOp) -> str:
    """The name of an operation without the dialect's."""
    return op.name.removeprefix("mesh.")


def is_older(name: str, text_at: Callable[[], str]) -> bool:
    """Whether an operation of this name is one of the first years.  ``text_at``: the text from its name on."""
    if not name.startswith("mesh."):
        return False
    return name.removeprefix("mesh.") in _OLDER or _is_older_form(text_at())


def _is_older_form(text: str) -> bool:
    """Whether a name that is still in use is followed by the parts that it had then."""
    text = text.lstrip('"')
    return bool(_ATTRIBUTES_ONLY.match(text) or _SHARDED_BY_ATTRIBUTE.match(text))


def lists_of(found: Attribute | None) -> list[list[int]]:
    """An attribute that is a list of lists of axes, or a list of axes."""
    if isinstance(found, DenseArrayBase):
        return [[int(n) for n in found.get_values()]]
    if not isinstance(found, ArrayAttr):
        return []
    if all(isinstance(each, IntegerAttr) for each in found):
        return [[int(each.value.data) for each in found if isinstance(each, IntegerAttr)]] if len(found) else []
    return [axes for each in found for axes in (lists_of(each) or [[]])]
