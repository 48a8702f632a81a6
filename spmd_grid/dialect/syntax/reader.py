"""From text to a module whose operations know their places."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from spmd_grid.dialect.syntax.context import OLD_WORDS, new_context
from spmd_grid.dialect.syntax.positions import Text, syntax_error
from spmd_grid.dialect.syntax.scan import scan
from spmd_grid.errors import DialectSyntaxError

__all__ = ["read"]

_RESULTS = re.compile(r"%[^=\n]*=\s*")
_NEW_WORDS = {old: new for new, old in OLD_WORDS.items()}


class _Reader(Parser):
    """Gives every operation its place, and reads the older words in operations of the shard dialect."""

    def __init__(self, text: Text):
        super().__init__(new_context(), text.content, text.file_name)
        self.text = text

    def parse_operation(self) -> Operation:
        """One operation, with those inside it."""
        start = self.pos
        named = _RESULTS.match(self.text.content, start)
        operation = super().parse_operation()
        operation.location = self.text.location(named.end() if named else start)
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

    @property
    def _in_shard(self) -> bool:
        return self._parser_state.dialect_stack[-1] == "shard"

    def _renewed(self, entries: dict[str, Attribute]) -> dict[str, Attribute]:
        if not self._in_shard:
            return entries
        return {_NEW_WORDS.get(name, name): value for name, value in entries.items()}


def read(content: str, file_name: str) -> ModuleOp:
    """The module of a text.  DialectSyntaxError with file, line and column.  Local."""
    text = Text(content, file_name)
    scan(text)
    reader: _Reader | None = None
    try:
        reader = _Reader(text)
        module = reader.parse_module()
    except ParseError as error:
        raise syntax_error(text, error.span.start, error.msg) from None
    except RecursionError:
        raise syntax_error(text, reader.pos if reader else 0, "too many parts inside one another") from None
    except DialectSyntaxError:
        raise
    except Exception as error:
        # The parser behind us has defects, and raises anything on malformed text; the place is known all the same.
        at = reader.pos if reader else 0
        raise syntax_error(text, at, f"cannot be read: {_said(error)}") from error
    return module


def _said(error: Exception) -> str:
    """The first line of an error's message, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
