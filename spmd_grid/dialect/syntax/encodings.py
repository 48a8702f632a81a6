"""Attributes that our own texts hold: the sharding of a tensor as its encoding, and element types of numpy's."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerType, StringAttr, i64
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

__all__ = ["DtypeType", "EncodingAttr", "is_encoded"]

_Lists = ArrayAttr[DenseArrayBase[IntegerType]]
_KINDS = {kind.value for kind in ReductionKind}
_WORDS = ("halo_sizes", "sharded_dims_offsets", "blocks", "ranks", "partial_axes", "grid")


@irdl_attr_definition
class EncodingAttr(ParametrizedAttribute):
    """The sharding of a tensor of global extents, as the RFC writes it: ``#shard.shard<[[0], [], [1]], max>``.

    Lists of grid axes per dimension, and of partial sums behind them; then, where they are not the usual ones, the
    reduction, and halos, offsets and policy of blocks by name.  Read, too: ``<@mesh0, [[0]], partial = max[1]>``.
    """

    name = "shard.shard"
    axes: _Lists
    kind: ReductionKindAttr
    blocks: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Read the parts between the angle brackets."""
        with parser.in_angle_brackets():
            symbol = parser.parse_optional_symbol_name()  # the grid, as it was written once
            if symbol is not None:
                parser.parse_punctuation(",")
            axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _read_numbers(parser))
            kind = ReductionKind.SUM
            blocks: dict[str, Attribute] = {}
            while parser.parse_optional_punctuation(",") is not None:
                word = parser.parse_identifier()
                if word == "partial":  # as it was written once: partial = sum[1]
                    parser.parse_punctuation("=")
                    kind, blocks["partial_axes"] = parser.parse_str_enum(ReductionKind), _read_numbers(parser)
                    continue
                if word in _KINDS:
                    kind = ReductionKind(word)
                    continue
                if word not in _WORDS or word in blocks:
                    parser.raise_error(f"expected a reduction or one of {', '.join(_WORDS)}, once, found {word}")
                parser.parse_punctuation("=")
                is_text = word in ("blocks", "grid")
                blocks[word] = StringAttr(parser.parse_str_literal()) if is_text else _read_numbers(parser)
        if symbol is not None:
            blocks["grid"] = symbol
        return [ArrayAttr(axes), ReductionKindAttr(kind), DictionaryAttr(blocks)]

    def print_parameters(self, printer: Printer) -> None:
        """Write the parts between angle brackets."""
        parts = [str([list(each.get_values()) for each in self.axes])]
        if self.kind.data is not ReductionKind.SUM:
            parts.append(self.kind.data.value)
        for word, found in self.blocks.data.items():
            if isinstance(found, StringAttr):
                parts.append(f'{word} = "{found.data}"')
            elif isinstance(found, DenseArrayBase):
                parts.append(f"{word} = {list(found.get_values())}")
        printer.print_string(f"<{', '.join(parts)}>")


def _read_numbers(parser: AttrParser) -> DenseArrayBase[IntegerType]:
    found = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    return DenseArrayBase.from_list(i64, found)


@irdl_attr_definition
class DtypeType(ParametrizedAttribute, TypeAttribute):
    """An element type that the dialect has none for: ``!numpy.dtype<"datetime64[s]">``."""

    name = "numpy.dtype"
    dtype: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Read the name of the type."""
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_str_literal())]

    def print_parameters(self, printer: Printer) -> None:
        """Write the name of the type."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.dtype.data)


def is_encoded(kind: Attribute) -> bool:
    """Whether a type is that of a whole tensor, with its sharding as the encoding."""
    return isinstance(getattr(kind, "encoding", None), EncodingAttr)
