"""Attributes that our own texts hold: the sharding of a tensor as its encoding, and element types of numpy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

__all__ = ["DtypeType", "EncodingAttr", "is_encoded", "is_sharding"]

_Lists = ArrayAttr[DenseArrayBase[IntegerType]]
_KINDS = {kind.value for kind in ReductionKind}
_TEXTS = "blocks", "grid"
_WORDS = ("halo_sizes", "sharded_dims_offsets", "blocks", "ranks", "partial_axes", "grid")


@irdl_attr_definition
class EncodingAttr(ParametrizedAttribute):
    """The sharding of a tensor of global extents, as the RFC writes it: ``#shard.shard<[[0], [], [1]], max>``.

    Lists of grid axes per dimension, and of partial sums after them; then, where they are not the usual ones, the
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
                blocks[word] = StringAttr(parser.parse_str_literal()) if word in _TEXTS else _read_numbers(parser)
        if symbol is not None:
            blocks["grid"] = symbol
        return [ArrayAttr(axes), ReductionKindAttr(kind), DictionaryAttr(dict(sorted(blocks.items())))]

    @classmethod
    def of_dictionary(cls, found: DictionaryAttr) -> EncodingAttr:
        """The sharding that a dictionary says, in which today's texts have it.  Raises ValueError.

        ``{split_axes = [[], [0]], partial_axes = [1], partial_kind = "max"}``, and the words of blocks.
        """
        entries = dict(found.data)
        axes, kind = entries.pop("split_axes"), entries.pop("partial_kind", StringAttr("sum"))
        if not isinstance(axes, ArrayAttr) or not isinstance(kind, StringAttr) or kind.data not in _KINDS:
            raise ValueError(f"split_axes must be a list, and partial_kind a reduction, found {axes} and {kind}")
        blocks: dict[str, Attribute] = {}
        for word, each in sorted(entries.items()):
            if word not in _WORDS:
                raise ValueError(f"a sharding has no {word}; beside split_axes there are {', '.join(_WORDS)}")
            blocks[word] = each if word in _TEXTS else _numbers(each)
            if word in _TEXTS and not isinstance(each, StringAttr):
                raise ValueError(f"{word} must be a text, found {each}")
        return cls(ArrayAttr(map(_numbers, axes)), ReductionKindAttr(ReductionKind(kind.data)), DictionaryAttr(blocks))

    def as_dictionary(self) -> DictionaryAttr:
        """The sharding as a dictionary, which every compiler reads."""
        entries: dict[str, Attribute] = {"split_axes": ArrayAttr(map(_list_of, self.axes))}
        if self.kind.data is not ReductionKind.SUM:
            entries["partial_kind"] = StringAttr(self.kind.data.value)
        for word, found in self.blocks.data.items():
            entries[word] = _list_of(found) if isinstance(found, DenseArrayBase) else found
        return DictionaryAttr(entries)

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


def is_sharding(encoding: Attribute) -> TypeGuard[DictionaryAttr]:
    """Whether the encoding of a tensor is a sharding as a dictionary."""
    return isinstance(encoding, DictionaryAttr) and "split_axes" in encoding.data


def _numbers(found: Attribute) -> DenseArrayBase[IntegerType]:
    if not isinstance(found, ArrayAttr) or not all(isinstance(n, IntegerAttr) and n.type == i64 for n in found):
        raise ValueError(f"a sharding has lists of integers, found {found}")
    return DenseArrayBase.from_list(i64, [n.value.data for n in found])


def _list_of(found: DenseArrayBase[IntegerType]) -> ArrayAttr[Attribute]:
    return ArrayAttr([IntegerAttr(n, i64) for n in found.get_values()])


@irdl_attr_definition
class DtypeType(ParametrizedAttribute, TypeAttribute):
    """An element type that no dialect has, by numpy's name: ``!emitc.opaque<"datetime64[s]">``."""

    name = "emitc.opaque"
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
