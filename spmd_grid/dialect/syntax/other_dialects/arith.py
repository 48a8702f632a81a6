"""arith as xdsl has it, with comparisons, choices and conversions of tensors, which xdsl refuses."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar, Self

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    AnyFloat,
    ContainerType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

__all__ = ["ARITH", "CONVERSIONS", "MEMREF", "IndexCastOp"]


def _cells(kind: Attribute) -> Attribute:
    return kind.get_element_type() if isinstance(kind, ContainerType) else kind


def _of_cells(kind: Attribute, cells: Attribute) -> Attribute:
    """The type of the same shape with other cells."""
    return TensorType(cells, kind.get_shape()) if isinstance(kind, TensorType) else cells


# -- conversions ---------------------------------------------------------------------------------------------------


class _ConversionOp(IRDLOperation, ABC):
    """Other element types of the same cells; how many there are, and of how many bits, is checked by our own rules."""

    BEFORE: ClassVar[tuple[Any, ...]] = (IntegerType,)
    AFTER: ClassVar[tuple[Any, ...]] = (IntegerType,)
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def verify_(self) -> None:
        """Check the kinds of the cells."""
        for what, kind, known in (("operand", self.input.type, self.BEFORE), ("result", self.result.type, self.AFTER)):
            if not isinstance(_cells(kind), known):
                raise VerifyException(f"the {what} is of type {kind}, whose cells are not those of {self.name}")


_FLOATS: tuple[Any, ...] = (AnyFloat,)
_INDICES: tuple[Any, ...] = (IntegerType, IndexType)


@irdl_op_definition
class IndexCastOp(_ConversionOp):
    """Between indices and integers, with a sign."""

    name = "arith.index_cast"
    BEFORE: ClassVar[tuple[Any, ...]] = _INDICES
    AFTER: ClassVar[tuple[Any, ...]] = _INDICES


def _conversion(name: str, before: tuple[Any, ...], after: tuple[Any, ...]) -> type[IRDLOperation]:
    parts = {"name": f"arith.{name}", "__module__": __name__, "BEFORE": before, "AFTER": after}
    notes = {"BEFORE": ClassVar[tuple[Any, ...]], "AFTER": ClassVar[tuple[Any, ...]]}
    return irdl_op_definition(type(f"Arith_{name}", (_ConversionOp,), {**parts, "__annotations__": notes}))


_INTEGERS: tuple[Any, ...] = (IntegerType,)
_MADE = {
    **{name: _conversion(name, _INTEGERS, _INTEGERS) for name in ("extsi", "extui", "trunci")},
    **{name: _conversion(name, _INTEGERS, _FLOATS) for name in ("sitofp", "uitofp")},
    **{name: _conversion(name, _FLOATS, _INTEGERS) for name in ("fptosi", "fptoui")},
    "index_castui": _conversion("index_castui", _INDICES, _INDICES),
}
CONVERSIONS = {f"arith.{name}" for name in (*_MADE, "index_cast", "extf", "truncf")}


# -- comparisons and choices ---------------------------------------------------------------------------------------


class _ComparisonOp(IRDLOperation, ABC):
    """A comparison of numbers, or of each cell."""

    WORDS: ClassVar[tuple[str, ...]] = ()
    predicate = prop_def(IntegerAttr)
    fastmath = opt_prop_def(arith.FastMathFlagsAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form: ``olt, %a, %b : type``."""
        at = parser.pos
        word = parser.parse_identifier()
        if word not in cls.WORDS:
            parser.raise_error(f"expected one of {', '.join(cls.WORDS)}, found {word}", at)
        properties: dict[str, Attribute] = {"predicate": IntegerAttr(cls.WORDS.index(word), i64)}
        parser.parse_punctuation(",")
        first = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        second = parser.parse_unresolved_operand()
        if parser.parse_optional_keyword("fastmath"):
            properties["fastmath"] = arith.FastMathFlagsAttr(arith.FastMathFlagsAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        kind = parser.parse_type()
        operands = parser.resolve_operands([first, second], [kind, kind], at)
        return cls.create(
            operands=operands, result_types=[_of_cells(kind, i1)], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        printer.print_string(f" {self.WORDS[self.predicate.value.data]}, ")
        printer.print_list([self.lhs, self.rhs], printer.print_ssa_value)
        if self.fastmath is not None and self.fastmath != arith.FastMathFlagsAttr("none"):
            printer.print_string(" fastmath")
            self.fastmath.print_parameter(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    def verify_(self) -> None:
        """Check that both operands are of one type, and the result has a bit for each of their cells."""
        if not 0 <= self.predicate.value.data < len(self.WORDS):
            raise VerifyException(f"predicate is {self.predicate.value.data}; it must be less than {len(self.WORDS)}")
        if self.lhs.type != self.rhs.type or self.result.type != _of_cells(self.lhs.type, i1):
            raise VerifyException(
                f"operands of {self.lhs.type} and {self.rhs.type}, and a result of {self.result.type}: operands must be"
                " of one type, and the result a bit for each cell"
            )
        kind: tuple[Any, ...] = _INDICES if self.name == "arith.cmpi" else _FLOATS
        if not isinstance(_cells(self.lhs.type), kind):
            raise VerifyException(f"the cells of {self.lhs.type} are not those that {self.name} compares")


@irdl_op_definition
class CmpiOp(_ComparisonOp):
    """A comparison of integers."""

    name = "arith.cmpi"
    WORDS: ClassVar[tuple[str, ...]] = tuple("eq ne slt sle sgt sge ult ule ugt uge".split())


@irdl_op_definition
class CmpfOp(_ComparisonOp):
    """A comparison of floating-point numbers."""

    name = "arith.cmpf"
    WORDS: ClassVar[tuple[str, ...]] = tuple(
        "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
    )


@irdl_op_definition
class SelectOp(IRDLOperation):
    """One of two values, by a bit, or by a bit for each cell."""

    name = "arith.select"
    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form; the type of the choice is written where it is not a bit."""
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(names) != 3 or len(kinds) > 2:
            parser.raise_error(f"expected 3 operands and 1 or 2 types, found {len(names)} and {len(kinds)}", at)
        choice: Attribute = i1 if len(kinds) == 1 else kinds[0]
        operands = parser.resolve_operands(names, [choice, kinds[-1], kinds[-1]], at)
        return cls.create(operands=operands, result_types=[kinds[-1]], attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        printer.print_string(" ")
        printer.print_list([self.cond, self.lhs, self.rhs], printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        kinds = [self.result.type] if self.cond.type == i1 else [self.cond.type, self.result.type]
        printer.print_list(kinds, printer.print_attribute)

    def verify_(self) -> None:
        """Check that the values are of one type, and the choice has one bit, or one for each cell."""
        if {self.lhs.type, self.rhs.type} != {self.result.type}:
            raise VerifyException(f"{self.lhs.type} and {self.rhs.type} must be of the type {self.result.type}")
        if self.cond.type not in (i1, _of_cells(self.result.type, i1)):
            raise VerifyException(f"the choice is of type {self.cond.type}; it must be one bit, or one for each cell")


# -- buffers -------------------------------------------------------------------------------------------------------


@irdl_op_definition
class _CopyOp(memref.CopyOp):
    """A copy of a buffer, in its pretty form as well."""

    name = "memref.copy"
    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    traits = traits_def(MemoryWriteEffect(), MemoryReadEffect())
    assembly_format = "$source `,` $destination attr-dict `:` type($source) `to` type($destination)"


@irdl_op_definition
class _CastOp(IRDLOperation):
    """The same buffer, of a type that knows more or fewer extents."""

    name = "memref.cast"
    source = operand_def(MemRefType)
    dest = result_def(MemRefType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"


def _replaced(known: Dialect, made: Any) -> Dialect:
    """A dialect in which our operations replace those of the same name."""
    names = {each.name for each in made}
    return Dialect(
        known.name, [*[each for each in known.operations if each.name not in names], *made], list(known.attributes)
    )


ARITH = _replaced(arith.Arith, [*_MADE.values(), IndexCastOp, CmpiOp, CmpfOp, SelectOp])
MEMREF = _replaced(memref.MemRef, [_CopyOp, _CastOp])
