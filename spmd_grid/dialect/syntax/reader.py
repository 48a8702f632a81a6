"""Reads text into a module whose operations know their lines and columns."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    ModuleOp,
    TensorType,
    UnknownLoc,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span

from spmd_grid.dialect.syntax.calls import as_operations
from spmd_grid.dialect.syntax.context import OLD_WORDS, reading_context, todays
from spmd_grid.dialect.syntax.encodings import EncodingAttr, is_sharding
from spmd_grid.dialect.syntax.older import is_older, older_class
from spmd_grid.dialect.syntax.positions import Text, syntax_error, verify_error
from spmd_grid.dialect.syntax.renewed import OlderTextError, renew
from spmd_grid.dialect.syntax.scan import scan
from spmd_grid.errors import DialectVerifyError

__all__ = ["read"]

_RESULTS = re.compile(r"%[^=\n]*=\s*")
_NEW_WORDS = {old: new for new, old in OLD_WORDS.items()}
_HEX_CELLS = re.compile(r'<?\s*"0x([0-9A-Fa-f]*)"')
_WITHOUT_POINT = re.compile(r"[-+]?\d+\s*:")
_LONGEST_HEAD = 400  # of the name and the operand of an operation
_MOST_CELLS = 2**25  # of a constant: xdsl's parser lists all of them


class _Cell(AttrParser._TensorLiteralElement):
    """A cell of a constant.  Hexadecimal digits of a float are its bits, and not a number as the parser has it.

    A complex number has two cells as its value.
    """

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        """The value of the cell."""
        if isinstance(type, ComplexType):
            if not isinstance(self.value, tuple):
                parser.raise_error(f"a cell of {type} has two parts, such as (1.0, 2.0)", self.span)
            cells: tuple[Any, ...] = self.value
            return tuple([cell.to_type(parser, type.element_type) for cell in cells])
        if isinstance(self.value, tuple):
            parser.raise_error(f"a complex number is no cell of {type}", self.span)
        digits = self.span.text.lower()
        if not isinstance(type, AnyFloat) or not digits.startswith("0x"):
            return super().to_type(parser, type)
        size = type.compile_time_size
        if len(digits) != 2 + 2 * size:
            parser.raise_error(f"the bits of {type} are {2 * size} hexadecimal digits", self.span)
        return type.unpack(int(digits, 16).to_bytes(size, "little"), 1)[0]


class _Reader(Parser):
    """Gives every operation its position, and reads the older words in operations of the shard dialect."""

    _TensorLiteralElement = _Cell

    def __init__(self, text: Text):
        self.begun: list[int] = []  # where the operations stand that are being read
        self.text = text
        self._dense_at = 0  # where the constant that is being read begins
        super().__init__(reading_context(), text.content, text.file_name)

    def parse_operation(self) -> Operation:
        """One operation, with those inside it."""
        start = self.pos
        named = _RESULTS.match(self.text.content, start)
        begin = named.end() if named else start
        self.begun.append(begin)
        operation = super().parse_operation()
        self.begun.pop()
        operation.location = self.text.location(begin)
        return operation

    def parse_optional_keyword(self, keyword: str) -> str | None:
        """A word, or its older spelling."""
        found = super().parse_optional_keyword(keyword)
        if found is None and keyword in OLD_WORDS and self._in_shard:
            found = super().parse_optional_keyword(OLD_WORDS[keyword])
        return found

    def parse_optional_properties_dict(self) -> dict[str, Attribute]:
        """Properties in generic form."""
        return self._renewed(super().parse_optional_properties_dict())

    def parse_optional_attr_dict(self) -> dict[str, Attribute]:
        """Attributes, which held the properties in older texts."""
        return self._renewed(super().parse_optional_attr_dict())

    def _get_op_by_name(self, name: str) -> type[Operation]:
        at = self.begun[-1]
        if is_older(name, lambda: self.text.content[at : at + _LONGEST_HEAD]):
            return older_class(name)
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is None:
            self.raise_error(f"the operation {name} is unknown", self.begun[-1])
        return found

    def parse_optional_builtin_int_or_float_attr(self) -> Any:
        """A number; one of a float type has a point, or is the bits."""
        start = self.pos
        found = super().parse_optional_builtin_int_or_float_attr()
        if isinstance(found, FloatAttr) and _WITHOUT_POINT.match(self.text.content, start):
            self.raise_error(f"a number of type {found.type} has a point, such as 2.0", start)
        return found

    def _parse_tensor_attrs(self) -> Any:
        """A tensor type; its encoding may be a sharding as a dictionary."""
        start = self.pos
        kind = super()._parse_tensor_attrs()
        if not isinstance(kind, TensorType) or not is_sharding(kind.encoding):
            return kind
        try:
            return TensorType(kind.element_type, kind.shape, EncodingAttr.of_dictionary(kind.encoding))
        except ValueError as error:
            self.raise_error(str(error), start)

    def _parse_optional_complex(self) -> Any:
        """The two parts of a complex number as cells, of which each may be digits or bits."""
        start = self.pos
        if self.parse_optional_punctuation("(") is None:
            return None
        parts = [self._parse_part(), self.parse_punctuation(","), self._parse_part()]
        self.parse_punctuation(")")
        return (parts[0], parts[2]), Span(start, self.pos, self._current_token.span.input)

    def _parse_part(self) -> _Cell:
        value, span = self._parse_bool_int_or_float()
        return _Cell(value < 0, value, span)

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        """The cells of a constant."""
        self._dense_at = self.pos
        found = super().parse_dense_int_or_fp_elements_attr(type)
        if found.get_element_type() != i1:
            return found
        cells = found.data.data.replace(b"\x01", b"\xff")  # as the parser keeps `true`
        return DenseIntOrFPElementsAttr(found.type, BytesAttr(cells))

    def _parse_dialect_resource_handle(self, dialect_name: str, interface: Any) -> str:
        """The key of cells that stand at the end of a text.  The parser would keep those for all texts; none are."""
        return self.parse_identifier()

    def _parse_resource(self, dialect_name: str, interface: Any) -> None:
        self.parse_identifier()
        self.parse_punctuation(":")
        self.parse_str_literal()

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        kind = super()._parse_dense_literal_type()
        cells = prod(kind.get_shape())
        found = _HEX_CELLS.match(self.text.content, self._dense_at, start)
        if kind.get_element_type() == i1 and found is not None and not _is_one_byte_each(found[1], cells):
            due = f"one byte per cell, 00 or 01, which are {2 * cells}; or write true and false"
            self.raise_error(f"an i1 array has {len(found[1])} hexadecimal digits; it must have {due}", start)
        if cells > _MOST_CELLS:
            self.raise_error(f"a constant of {cells} cells; at most {_MOST_CELLS} are read: use tensor.splat", start)
        return kind

    @property
    def _in_shard(self) -> bool:
        return self._parser_state.dialect_stack[-1] == "shard"

    def _renewed(self, entries: dict[str, Attribute]) -> dict[str, Attribute]:
        entries = {name: todays(value) for name, value in entries.items()}
        if not self._in_shard:
            return entries
        return {_NEW_WORDS.get(name, name): value for name, value in entries.items()}


def _is_one_byte_each(digits: str, cells: int) -> bool:
    """Whether hexadecimal digits are a byte of 0 or 1 for each cell; older compilers packed eight cells in one."""
    return len(digits) == 2 * cells and set(digits[::2]) <= {"0"} and set(digits[1::2]) <= {"0", "1"}


def read(content: str, file_name: str) -> ModuleOp:
    """The module of a text, in today's operations.  Errors of the dialect with file, line and column.  Local."""
    text = Text(content, file_name)
    scan(text)
    begun: list[int] = []
    try:
        reader = _Reader(text)
        begun = reader.begun
        module = reader.parse_module()
        as_operations(module)
        renew(module)
    except DialectVerifyError:
        raise
    except OlderTextError as error:
        raise verify_error(error.operation, str(error)) from None
    except ParseError as error:
        raise syntax_error(text, error.span.start, error.msg.strip()) from None
    except RecursionError:
        raise syntax_error(text, begun[-1] if begun else 0, "too many parts inside one another") from None
    except Exception as error:
        # xdsl's parser has defects, and raises any error on malformed text; the operation is known all the same.
        raise syntax_error(text, begun[-1] if begun else 0, f"cannot be read: {_said(error)}") from error
    if isinstance(module.location, UnknownLoc):  # the text has none, and begins with what is in it
        module.location = text.location(0)
    return module


def _said(error: Exception) -> str:
    """The first line of an error's message; many have none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else f"its operands, attributes and types do not fit one another ({type(error).__name__})"
