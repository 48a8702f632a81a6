"""The shape that pretty forms of stablehlo share: operands, parts such as ``dims = [1, 0]``, then types."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, result_def, traits_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

__all__ = ["HloOp", "read_operands", "read_types"]


class HloOp(IRDLOperation, ABC):
    """An operation with one result."""

    COUNT: ClassVar[int | None] = None  # of operands; None for any
    ONE_TYPE: ClassVar[bool] = False  # whether the pretty form gives one type where all are equal
    inputs = var_operand_def(TensorType)
    output = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def read_head(cls, parser: Parser) -> dict[str, Attribute]:
        """The parts before the operands."""
        return {}

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """The parts after the operands."""
        return {}

    def print_head(self, printer: Printer) -> None:
        """Write the parts before the operands, and a space."""

    def print_parts(self, printer: Printer) -> None:
        """Write the parts after the operands, each with a comma before."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form."""
        properties = cls.read_head(parser)
        names = read_operands(parser)
        properties |= cls.read_parts(parser)
        attributes = parser.parse_optional_attr_dict()
        operands, results = read_types(parser, names)
        return cls.create(operands=operands, result_types=results, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        printer.print_string(" ")
        self.print_head(printer)
        printer.print_list(self.inputs, printer.print_ssa_value)
        self.print_parts(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.ONE_TYPE and {x.type for x in self.inputs} == {self.output.type}:
            printer.print_attribute(self.output.type)
        else:
            printer.print_function_type([x.type for x in self.inputs], [self.output.type])

    def verify_(self) -> None:
        """Check the number of operands."""
        if self.COUNT is not None and len(self.inputs) != self.COUNT:
            raise VerifyException(f"expected {self.COUNT} operands, found {len(self.inputs)}")


def read_operands(parser: Parser) -> list[UnresolvedOperand]:
    """Names of values, up to a part that is none."""
    names: list[UnresolvedOperand] = []
    while (found := parser.parse_optional_unresolved_operand()) is not None:
        names.append(found)
        if parser.parse_optional_punctuation(",") is None:
            return names
    if names and parser.lexer.input.at(parser.pos) in (":", "{"):
        parser.raise_error("expected a value after the comma")
    return names


def read_types(parser: Parser, names: Sequence[UnresolvedOperand]) -> tuple[Sequence[SSAValue], Sequence[Attribute]]:
    """The operands, and the types of the results: from a function's type, or from one type for all."""
    parser.parse_punctuation(":")
    at = parser.pos
    kind = parser.parse_optional_function_type()
    if kind is None:
        one = parser.parse_type()
        return parser.resolve_operands(names, [one] * len(names), at), [one]
    return parser.resolve_operands(names, kind.inputs.data, at), kind.outputs.data
