"""The operations of stablehlo that are read."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import I64, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from spmd_grid.dialect.syntax.other_dialects.stablehlo.attributes import (
    Comparison,
    ComparisonAttr,
    ComparisonType,
    ComparisonTypeAttr,
    Numbers,
    numbers_attribute,
    print_numbers,
    read_numbers,
)
from spmd_grid.dialect.syntax.other_dialects.stablehlo.base import HloOp, read_operands
from spmd_grid.dialect.syntax.other_dialects.stablehlo.dot_general import DotGeneralOp

__all__ = ["ELEMENTWISE", "OPERATIONS"]

_UNARY = (
    "abs ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate not rsqrt sign sine "
    "sqrt tanh"
).split()
_BINARY = "add and atan2 divide maximum minimum multiply or power remainder subtract xor".split()
ELEMENTWISE = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2), "clamp": 3}


class _One(HloOp, ABC):
    """One operand, of another type than the result."""

    COUNT: ClassVar[int | None] = 1


class _Same(HloOp, ABC):
    """Operands and result of one type, where the text gives one."""

    ONE_TYPE: ClassVar[bool] = True


def _elementwise(name: str) -> type[IRDLOperation]:
    return irdl_op_definition(type(f"Hlo_{name}", (_Same,), {"name": f"stablehlo.{name}", "__module__": __name__}))


@irdl_op_definition
class ConvertOp(_One):
    """Another element type."""

    name = "stablehlo.convert"


@irdl_op_definition
class ReshapeOp(_One):
    """Another shape of the same cells."""

    name = "stablehlo.reshape"


class _DimsOp(_One, ABC):
    """An operation with a list of dimensions."""

    WORD: ClassVar[str] = ""

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """The dimensions."""
        parser.parse_keyword("dims")
        parser.parse_punctuation("=")
        return {cls.WORD: read_numbers(parser)}

    def print_parts(self, printer: Printer) -> None:
        """Write the dimensions."""
        printer.print_string(", dims = ")
        found = self.properties[self.WORD]
        if isinstance(found, DenseArrayBase):
            print_numbers(printer, found)


@irdl_op_definition
class BroadcastInDimOp(_DimsOp):
    """Copies along new dimensions."""

    name = "stablehlo.broadcast_in_dim"
    WORD: ClassVar[str] = "broadcast_dimensions"
    broadcast_dimensions = prop_def(Numbers)


@irdl_op_definition
class TransposeOp(_DimsOp):
    """Another order of dimensions."""

    name = "stablehlo.transpose"
    WORD: ClassVar[str] = "permutation"
    permutation = prop_def(Numbers)


@irdl_op_definition
class ConcatenateOp(HloOp):
    """Operands one after the other."""

    name = "stablehlo.concatenate"
    dimension = prop_def(IntegerAttr[I64])

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """The dimension."""
        parser.parse_keyword("dim")
        parser.parse_punctuation("=")
        return {"dimension": IntegerAttr(parser.parse_integer(allow_boolean=False), i64)}

    def print_parts(self, printer: Printer) -> None:
        """Write the dimension."""
        printer.print_string(f", dim = {self.dimension.value.data}")


@irdl_op_definition
class CompareOp(HloOp):
    """A comparison of cells."""

    name = "stablehlo.compare"
    COUNT: ClassVar[int | None] = 2
    comparison_direction = prop_def(ComparisonAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)

    @classmethod
    def read_head(cls, parser: Parser) -> dict[str, Attribute]:
        """The direction."""
        direction = ComparisonAttr(parser.parse_str_enum(Comparison))
        parser.parse_punctuation(",")
        return {"comparison_direction": direction}

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """The order, which may be left out."""
        kind = parser.parse_optional_str_enum(ComparisonType)
        return {} if kind is None else {"compare_type": ComparisonTypeAttr(kind)}

    def print_head(self, printer: Printer) -> None:
        """Write the direction."""
        printer.print_string(f"{self.comparison_direction.data.value}, ")

    def print_parts(self, printer: Printer) -> None:
        """Write the order, if it is given."""
        if self.compare_type is not None:
            printer.print_string(f", {self.compare_type.data.value}")


@irdl_op_definition
class SelectOp(HloOp):
    """Cells of one operand or of another."""

    name = "stablehlo.select"
    COUNT: ClassVar[int | None] = 3

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form, whose types are those of the predicate and of the rest."""
        names = read_operands(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        kind = parser.parse_optional_function_type()
        if kind is None:
            choice = parser.parse_type()
            parser.parse_punctuation(",")
            one = parser.parse_type()
            types: list[Attribute] = [choice, one, one]
            results: list[Attribute] = [one]
        else:
            types, results = list(kind.inputs.data), list(kind.outputs.data)
        operands = parser.resolve_operands(names, types, at)
        return cls.create(operands=operands, result_types=results, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        if len(self.inputs) != 3 or len({x.type for x in (*self.inputs[1:], self.output)}) != 1:
            super().print(printer)
            return
        printer.print_string(" ")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([self.inputs[0].type, self.output.type], printer.print_attribute)


@irdl_op_definition
class SliceOp(_One):
    """Cells at regular steps."""

    name = "stablehlo.slice"
    start_indices = prop_def(Numbers)
    limit_indices = prop_def(Numbers)
    strides = prop_def(Numbers)

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """Start, end and step of each dimension."""
        found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _read_range(parser))
        words = ("start_indices", "limit_indices", "strides")
        return {word: numbers_attribute([entry[n] for entry in found]) for n, word in enumerate(words)}

    def print_parts(self, printer: Printer) -> None:
        """Write the ranges."""
        ranges = zip(self.start_indices.get_values(), self.limit_indices.get_values(), self.strides.get_values())
        texts = [f"{start}:{end}" + (f":{step}" if step != 1 else "") for start, end, step in ranges]
        printer.print_string(f" [{', '.join(texts)}]")


def _read_range(parser: Parser) -> tuple[int, int, int]:
    start = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(":")
    end = parser.parse_integer(allow_boolean=False)
    step = 1
    if parser.parse_optional_punctuation(":") is not None:
        step = parser.parse_integer(allow_boolean=False)
    return start, end, step


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant."""

    name = "stablehlo.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form, whose type is that of the value."""
        attributes = parser.parse_optional_attr_dict()
        at = parser.pos
        value = parser.parse_attribute()
        if not isinstance(value, DenseIntOrFPElementsAttr):
            parser.raise_error("expected dense<...> and its type", at)
        return cls.create(result_types=[value.get_type()], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)


@irdl_op_definition
class IotaOp(IRDLOperation):
    """The index of each cell along a dimension."""

    name = "stablehlo.iota"
    iota_dimension = prop_def(IntegerAttr[I64])
    output = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form."""
        parser.parse_keyword("dim")
        parser.parse_punctuation("=")
        dim = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        return cls.create(result_types=[kind], properties={"iota_dimension": dim}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        printer.print_string(f" dim = {self.iota_dimension.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.output.type)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The results of a body."""

    name = "stablehlo.return"
    arguments = var_operand_def(TensorType)
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


OPERATIONS: list[Any] = [
    *[_elementwise(name) for name in ELEMENTWISE],
    *(BroadcastInDimOp, CompareOp, ConcatenateOp, ConstantOp, ConvertOp, DotGeneralOp, IotaOp, ReshapeOp),
    *(ReturnOp, SelectOp, SliceOp, TransposeOp),
]
