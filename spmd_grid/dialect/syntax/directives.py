"""Parts of the pretty form that declarative formats leave out: reductions, and lists of numbers and values."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerType, i64
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr
from xdsl.dialects.utils import DimensionList, DynamicIndexList
from xdsl.dialects.utils.dimension_list import parse_empty_dimension_list_directive
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

__all__ = ["DYNAMIC_INDEX", "DIRECTIVES", "Reduction", "Sizes", "mixed", "numbers"]


@irdl_custom_directive
class Reduction(CustomDirective):
    """A reduction: ``max``, as the dialect's printer writes it, or ``<max>``, as its documentation does."""

    kind: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Read one of the reductions."""
        in_brackets = parser.parse_optional_punctuation("<") is not None
        kind = parser.parse_str_enum(ReductionKind)
        if in_brackets:
            parser.parse_punctuation(">")
        self.kind.set(state, ReductionKindAttr(kind))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Write the bare name."""
        state.print_whitespace(printer)
        kind = self.kind.get(op)
        printer.print_string(kind.data.value if isinstance(kind, ReductionKindAttr) else str(kind))
        state.should_emit_space, state.last_was_punctuation = True, False

    def set_empty(self, state: ParsingState) -> None:
        """Leave the default."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Whether the reduction is another than the default."""
        return self.kind.is_present(op)

    def is_anchorable(self) -> bool:
        """Whether an optional group may depend on it."""
        return True


@irdl_custom_directive
class OptionalIndexList(DynamicIndexList):
    """Numbers and values that may be left out, which is not the same as none."""

    dynamic_position: VariadicOperandVariable
    static_position: AttributeVariable

    def set_empty(self, state: ParsingState) -> None:
        """Leave the numbers out."""
        self.dynamic_position.set(state, [])

    def is_present(self, op: IRDLOperation) -> bool:
        """Whether there is a list."""
        return self.static_position.get(op) is not None


@irdl_custom_directive
class Sizes(DimensionList):
    """The sizes of a grid, of 64 bits with a sign."""

    dimensions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Read the sizes."""
        at = parser.pos
        sizes = [] if parse_empty_dimension_list_directive(parser) else parser.parse_dimension_list()
        if any([n >= 2**63 for n in sizes]):
            parser.raise_error("a size of a grid needs more than 63 bits", at)
        self.dimensions.set(state, DenseArrayBase.from_list(i64, sizes))


DIRECTIVES = (Sizes, DynamicIndexList, OptionalIndexList, Reduction)


def numbers(attribute: DenseArrayBase[IntegerType] | None) -> tuple[int, ...]:
    """The numbers of a dense array; none for an absent one."""
    return () if attribute is None else tuple(attribute.get_values())


def mixed(static: tuple[int, ...], dynamic: Iterator[SSAValue]) -> tuple[int | SSAValue, ...]:
    """Numbers, with the next of ``dynamic`` for each marker.  A list that is short of values keeps its markers."""
    return tuple([next(dynamic, n) if n == DYNAMIC_INDEX else n for n in static])
