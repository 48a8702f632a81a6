"""Reductions of stablehlo, whose body is one operation of two numbers."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from spmd_grid.dialect.syntax.other_dialects.stablehlo.attributes import Numbers, print_numbers, read_numbers
from spmd_grid.dialect.syntax.other_dialects.stablehlo.operations import ReturnOp

__all__ = ["HloReduceOp", "combiner_of"]


def combiner_of(body: Region) -> str | None:
    """The name of the only operation of a body, on both of its arguments; None of other bodies."""
    blocks = list(body.blocks)
    if len(blocks) != 1 or len(blocks[0].args) != 2:
        return None
    ops = list(blocks[0].ops)
    if len(ops) != 2 or set(ops[0].operands) != set(blocks[0].args) or len(ops[0].results) != 1:
        return None
    returns = isinstance(ops[1], ReturnOp) and list(ops[1].operands) == list(ops[0].results)
    return ops[0].name if returns else None


@irdl_op_definition
class HloReduceOp(IRDLOperation):
    """A reduction over dimensions, from an initial number."""

    name = "stablehlo.reduce"
    input = operand_def(TensorType)
    init = operand_def(TensorType)
    dimensions = prop_def(Numbers)
    result = result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(Pure())

    @property
    def combiner(self) -> str | None:
        """The name of the operation of the body, such as ``stablehlo.add``; None if it is not one of both arguments."""
        return combiner_of(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form: ``(%x init: %zero) applies stablehlo.add across dimensions = [1] : types``."""
        with parser.in_parens():
            value = parser.parse_unresolved_operand()
            parser.parse_keyword("init")
            parser.parse_punctuation(":")
            init = parser.parse_unresolved_operand()
        parser.parse_keyword("applies")
        at = parser.pos
        word = parser.parse_identifier()
        parser.parse_keyword("across")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        dimensions = read_numbers(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types_at = parser.pos
        kind = parser.parse_function_type()
        operands = parser.resolve_operands([value, init], kind.inputs.data, types_at)
        combiner = parser.ctx.get_optional_op(word)
        if combiner is None:
            parser.raise_error(f"the operation {word} is unknown", at)
        number = (
            TensorType(operands[1].type.get_element_type(), []) if isinstance(operands[1].type, TensorType) else None
        )
        if number is None:
            parser.raise_error(f"the initial number must be a tensor, found {operands[1].type}", types_at)
        block = Block(arg_types=[number, number])
        operation = combiner.create(operands=list(block.args), result_types=[number])
        block.add_ops([operation, ReturnOp.create(operands=list(operation.results))])
        return cls.create(
            operands=operands,
            result_types=kind.outputs.data,
            properties={"dimensions": dimensions},
            attributes=attributes,
            regions=[Region(block)],
        )

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        printer.print_string("(")
        printer.print_ssa_value(self.input)
        printer.print_string(" init: ")
        printer.print_ssa_value(self.init)
        printer.print_string(f") applies {self.combiner} across dimensions = ")
        print_numbers(printer, self.dimensions)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type([self.input.type, self.init.type], [self.result.type])

    def verify_(self) -> None:
        """Check that the body is one operation."""
        if self.combiner is None:
            raise VerifyException("the body must be one operation on both arguments, and the return of its result")
