"""Attributes of stablehlo: the dimensions of a product, precisions, comparisons; and lists of numbers in brackets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

__all__ = [
    "Comparison",
    "ComparisonAttr",
    "ComparisonType",
    "ComparisonTypeAttr",
    "DotAttr",
    "Numbers",
    "Precision",
    "PrecisionAttr",
    "numbers_attribute",
    "print_numbers",
    "read_numbers",
]

Numbers = DenseArrayBase[I64]


class Precision(StrEnum):
    """Precisions of a product."""

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"


class Comparison(StrEnum):
    """Directions of a comparison."""

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


class ComparisonType(StrEnum):
    """Orders that a comparison uses."""

    NOTYPE = "NOTYPE"
    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """A precision of a product."""

    name = "stablehlo.precision"


@irdl_attr_definition
class ComparisonAttr(EnumAttribute[Comparison], SpacedOpaqueSyntaxAttribute):
    """A direction of a comparison."""

    name = "stablehlo.comparison_direction"


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttribute[ComparisonType], SpacedOpaqueSyntaxAttribute):
    """The order that a comparison uses."""

    name = "stablehlo.comparison_type"


def numbers_attribute(found: Iterable[int]) -> Numbers:
    """A list of 64-bit numbers as an attribute."""
    return DenseArrayBase.from_list(i64, list(found))


def read_numbers(parser: AttrParser) -> Numbers:
    """A list such as ``[0, 2]``."""
    return numbers_attribute(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
    )


def print_numbers(printer: Printer, found: Numbers) -> None:
    """Write a list such as ``[0, 2]``."""
    with printer.in_square_brackets():
        printer.print_list(found.get_values(), printer.print_int)


@irdl_attr_definition
class DotAttr(ParametrizedAttribute):
    """The dimensions of a general product: those that run along, and those that are summed over, of each operand."""

    name = "stablehlo.dot"
    lhs_batching_dimensions: Numbers
    rhs_batching_dimensions: Numbers
    lhs_contracting_dimensions: Numbers
    rhs_contracting_dimensions: Numbers

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The names of the parts, in order."""
        return tuple([f"{side}_{kind}_dimensions" for kind in ("batching", "contracting") for side in ("lhs", "rhs")])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Read the parts that are there; the others are empty."""
        found: dict[str, Numbers] = {}

        def part() -> None:
            word = parser.parse_identifier()
            if word not in cls.words() or word in found:
                parser.raise_error(f"expected one of {', '.join(cls.words())}, once, found {word}")
            parser.parse_punctuation("=")
            found[word] = read_numbers(parser)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, part)
        return [found.get(word, numbers_attribute([])) for word in cls.words()]

    def print_parameters(self, printer: Printer) -> None:
        """Write the parts that are not empty."""
        parts = [(word, getattr(self, word)) for word in self.words()]
        with printer.in_angle_brackets():
            printer.print_list([entry for entry in parts if len(entry[1])], lambda entry: _print_part(printer, *entry))


def _print_part(printer: Printer, word: str, found: Numbers) -> None:
    printer.print_string(f"{word} = ")
    print_numbers(printer, found)
