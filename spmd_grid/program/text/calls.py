"""Operations of our own as calls: of functions that are declared and have no body, which every compiler reads.

``"numpy.abs"`` is no operation of a dialect; ``call @numpy.abs(...)`` of ``func.func private @numpy.abs(...)`` is one
of `func`, with the plain arguments of the function as attributes of the call: ``spmd_grid.axis = 1``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spmd_grid.reshard.planner.steps import STEP_KINDS

__all__ = [
    "CONSTANT",
    "MANUAL",
    "OPAQUE",
    "OWN",
    "PREFIX",
    "STEPS",
    "Calls",
    "attributes_text",
    "called_name",
    "string_text",
    "symbol_text",
]

OWN = ("numpy.", "spmd_grid.")  # beginnings of the names
PREFIX = "spmd_grid."  # of attributes that no dialect has
CONSTANT = "spmd_grid.constant"  # of a type that `arith` has no constants of
MANUAL, OPAQUE = "spmd_grid.manual", "spmd_grid.opaque"  # calls of Python's, which no text holds
_OF_NUMPY = "astype", "concatenate", "constant", "getitem", "reshape", "setitem"
_OF_PROGRAMS = "block", "constant", "constrain", "new", "pick", "put_along_axis", "sharding_group", "write"
_OF_PLANS = "carry", "ends_of_blocks", "make_room", "put", "reshape", "same_cells", "scan", "select", "view", "wait"
# The operations that are no call of a function.  With the functions that have a rule, these are all names of our own.
STEPS = frozenset(
    [f"numpy.{each}" for each in _OF_NUMPY] + [f"spmd_grid.{each}" for each in (*_OF_PROGRAMS, *_OF_PLANS, *STEP_KINDS)]
)
_PLAIN_SYMBOL = re.compile(r"[A-Za-z_$.][\w$.-]*")
_NUMBER = re.compile(r"\$\d+\Z")


def symbol_text(name: str) -> str:
    """The name of a function where it is used.

    >>> symbol_text("numpy.abs$1"), symbol_text("spmd_grid.<lambda>")
    ('@numpy.abs$1', '@"spmd_grid.<lambda>"')
    """
    if _PLAIN_SYMBOL.fullmatch(name):
        return f"@{name}"
    return f"@{string_text(name)}"


def string_text(text: str) -> str:
    """A text in the quotes and escapes of the dialect.

    >>> print(string_text('a"b'))
    "a\\"b"
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def called_name(symbol: str) -> str:
    """The operation that a declared function stands for: its name, without the number of its signature.

    >>> called_name("numpy.abs$1"), called_name("numpy.abs")
    ('numpy.abs', 'numpy.abs')
    """
    return _NUMBER.sub("", symbol)


def attributes_text(attributes: Sequence[str], prefix: str = PREFIX) -> str:
    """Attributes in braces, with a blank in front; nothing where there are none.

    >>> attributes_text(["axis = 1", "collective"])
    ' {spmd_grid.axis = 1, spmd_grid.collective}'
    """
    return f" {{{', '.join([prefix + each for each in attributes])}}}" if attributes else ""


class Calls:
    """Names the functions of one text: those of one operation with other types have a number after the name."""

    def __init__(self) -> None:
        self._symbols: dict[tuple[str, tuple[str, ...], tuple[str, ...]], str] = {}
        self._counts: dict[str, int] = {}

    def symbol(self, name: str, operands: Sequence[str], results: Sequence[str]) -> str:
        """The name of the function that stands for an operation, by the types of its operands and results."""
        key = name, tuple(operands), tuple(results)
        if key not in self._symbols:
            number = self._counts[name] = self._counts.get(name, -1) + 1
            self._symbols[key] = f"{name}${number}" if number else name
        return self._symbols[key]

    def text(
        self, name: str, operands: Sequence[tuple[str, str]], results: Sequence[str], attributes: Sequence[str] = ()
    ) -> str:
        """A call; operands with their types, and the types of results.

        >>> Calls().text("numpy.sum", [("%0", "tensor<4xf32>")], ["f32"], ["axis = 0"])
        'call @numpy.sum(%0) {spmd_grid.axis = 0} : (tensor<4xf32>) -> f32'
        """
        types = [kind for _, kind in operands]
        callee = symbol_text(self.symbol(name, types, results))
        names = ", ".join([x for x, _ in operands])
        return f"call {callee}({names}){attributes_text(attributes)} : ({', '.join(types)}) -> {_types(results)}"

    @property
    def declarations(self) -> list[str]:
        """The functions that are called, in the order of their first calls."""
        return [
            f"func.func private {symbol_text(symbol)}({', '.join(operands)})"
            + (f" -> {_types(results)}" if results else "")
            for (_, operands, results), symbol in self._symbols.items()
        ]


def _types(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
