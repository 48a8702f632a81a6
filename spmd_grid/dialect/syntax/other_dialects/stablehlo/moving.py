"""Operations of stablehlo that move cells: slices that start where values say, borders, and other directions."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerType, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from spmd_grid.dialect.syntax.other_dialects.stablehlo.attributes import (
    Numbers,
    numbers_attribute,
    print_numbers,
    read_numbers,
)
from spmd_grid.dialect.syntax.other_dialects.stablehlo.base import HloOp

__all__ = ["MOVING", "DynamicSliceOp", "DynamicUpdateSliceOp"]


class _ListsOp(HloOp, ABC):
    """An operation with lists of numbers after its operands, such as ``dims = [1, 0]``."""

    PARTS: ClassVar[dict[str, str]] = {}  # the word of the pretty form by the attribute

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """The lists."""
        found: dict[str, Attribute] = {}
        for name, word in cls.PARTS.items():
            if found:
                parser.parse_punctuation(",")
            parser.parse_keyword(word)
            parser.parse_punctuation("=")
            found[name] = read_numbers(parser)
        return found

    def print_parts(self, printer: Printer) -> None:
        """Write the lists."""
        for name, word in self.PARTS.items():
            printer.print_string(f", {word} = ")
            found = self.properties[name]
            if isinstance(found, DenseArrayBase | DenseIntOrFPElementsAttr):
                print_numbers(printer, numbers_attribute([int(n) for n in found.get_values()]))


class _StartingOp(_ListsOp, ABC):
    """An operation whose last operands say where it starts: arrays of one number, or numbers, as in the RFC."""

    BEFORE: ClassVar[int] = 1  # operands before the starts
    inputs = var_operand_def()

    def verify_(self) -> None:
        """Check the types of the operands."""
        for number, x in enumerate(self.inputs):
            is_array = isinstance(x.type, TensorType)
            if not is_array and (number < self.BEFORE or not isinstance(x.type, IntegerType)):
                raise VerifyException(f"operand {number} is of type {x.type}; it must be a tensor")
        if len(self.inputs) < self.BEFORE:
            raise VerifyException(f"expected at least {self.BEFORE} operands, found {len(self.inputs)}")


@irdl_op_definition
class DynamicSliceOp(_StartingOp):
    """A slice of these sizes; a start that leaves no room is moved until it does."""

    name = "stablehlo.dynamic_slice"
    PARTS: ClassVar[dict[str, str]] = {"slice_sizes": "sizes"}
    slice_sizes = prop_def()  # a list of numbers, or an array of them, as in the RFC


@irdl_op_definition
class DynamicUpdateSliceOp(_StartingOp):
    """The first operand, with the second in place of a slice."""

    name = "stablehlo.dynamic_update_slice"
    BEFORE: ClassVar[int] = 2


@irdl_op_definition
class PadOp(_ListsOp):
    """The cells with others around and between them; negative borders take cells away."""

    name = "stablehlo.pad"
    COUNT: ClassVar[int | None] = 2
    PARTS: ClassVar[dict[str, str]] = {
        "edge_padding_low": "low",
        "edge_padding_high": "high",
        "interior_padding": "interior",
    }
    edge_padding_low = prop_def(Numbers)
    edge_padding_high = prop_def(Numbers)
    interior_padding = prop_def(Numbers)


@irdl_op_definition
class ReverseOp(_ListsOp):
    """The cells in the other direction along dimensions."""

    name = "stablehlo.reverse"
    COUNT: ClassVar[int | None] = 1
    ONE_TYPE: ClassVar[bool] = True
    PARTS: ClassVar[dict[str, str]] = {"dimensions": "dims"}
    dimensions = prop_def(Numbers)


MOVING = [DynamicSliceOp, DynamicUpdateSliceOp, PadOp, ReverseOp]
