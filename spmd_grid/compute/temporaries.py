"""Temporaries of one expression: arrays that only the next operator will ever see, which writes its result there.

    0.25 * (a[:-1] + a[1:] + b)      a[:-1] + a[1:] gets new memory; both other operators write to it

numpy does the same in large arrays, and finds its temporaries by their references and the stack of C functions.  Here
the operator looks at the instruction that the calling function is at, its *site*.  A mark is the address of a
function's frame, and the offset of an instruction in its code.  An operand is a temporary if

- within that function, without a jump, a call or an assignment between, the operand is what another instruction left on
  the stack, as the function's code shows;
- it carries the mark of that very instruction in that very call of the function.  Slices get one, and results of
  operators one of whose operands carries the right one: so an operand that comes out of a container never does;
- nothing else refers to it, no view reads its memory, it borrows none, and the program has had no view of it.

Most sites come again and again, with arrays that look the same.  So the arrays that they left last time are kept, and
given again once nothing refers to them any more: slices are kept by the array that they read (`memory`), small results
by the grid (`alike`).
"""

from __future__ import annotations

import dis
from sys import getrefcount
from threading import RLock
from types import CodeType, FrameType
from typing import Any

__all__ = ["NO_SITE", "REFERENCES", "SHIFT", "Site", "read_site", "sites"]

_MOST_KEPT = 512
SHIFT = 48  # addresses have fewer bits
_LOADS = frozenset(
    (
        *("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF"),
        *("LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_NAME"),
    )
)
_CONSTANTS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
_SUBSCRIPTS = {"BINARY_SUBSCR": 2, "BINARY_SLICE": 3}
_BUILDS = frozenset(("BUILD_SLICE", "BUILD_TUPLE"))
_IGNORED = frozenset(("CACHE", "NOP", "EXTENDED_ARG", "RESUME"))
_OPERATORS = frozenset("+-*/")


class Site:
    """An instruction of a function that takes a part of an array, or one of the operators + - * /.

    ``mark``: its offset in the code, as in marks; ``left`` and ``right``: those of the instructions that leave its
    operands, -1 for others.  ``is_constant``: whether all that stands between the brackets is constant.  ``known``:
    what `alike` has found for the operands of last time.
    """

    __slots__ = ("is_constant", "known", "left", "mark", "right")

    def __init__(self, offset: int, left: int = -1, right: int = -1, is_constant: bool = False):
        self.mark = offset << SHIFT
        self.left = left << SHIFT if left >= 0 else -1
        self.right = right << SHIFT if right >= 0 else -1
        self.is_constant = is_constant
        self.known: tuple[Any, ...] = (None,) * 5


# By the address of a code object and the offset where its frame is, as in ``id(frame.f_code) + (frame.f_lasti <<
# SHIFT)``; NO_SITE for other instructions.  A frame may also be after an instruction, at the bytes of its cache.
sites: dict[int, Site] = {}
NO_SITE = Site(0)
_codes: dict[int, CodeType] = {}  # those that have been read, which are kept, by their addresses
_lock = RLock()  # of both, while a code is read


def read_site(frame: FrameType) -> Site:
    """The site that a frame is at, which was not among the `sites`, and is from now on.  Local."""
    code = frame.f_code
    with _lock:
        if id(code) not in _codes:
            if len(_codes) >= _MOST_KEPT:
                sites.clear()  # first: without its code, a site would be taken for one of the next code at its address
                _codes.clear()
            _codes[id(code)] = code
            for offset, site in _sites_in(code).items():
                sites[id(code) + (offset << SHIFT)] = site
        return sites.setdefault(id(code) + (frame.f_lasti << SHIFT), NO_SITE)


def _sites_in(code: CodeType) -> dict[int, Site]:
    """The sites of a function, by all offsets of their instructions.

    ``stack`` holds, from the top downwards as far as it is known, the offset of the instruction that left each value,
    -1 for those that are not followed, and None for constants.
    """
    found: dict[int, Site] = {}
    stack: list[int | None] = []
    last: tuple[int, Site] | None = None  # that of the instruction before, and its offset

    def pop(n: int) -> list[int | None]:
        unknown: list[int | None] = [-1] * max(n - len(stack), 0)
        taken = unknown + stack[max(len(stack) - n, 0) :]
        del stack[max(len(stack) - n, 0) :]
        return taken

    for each in dis.get_instructions(code):
        name, offset = each.opname, each.offset
        if last is not None:
            found |= dict.fromkeys(range(last[0], offset, 2), last[1])
            last = None
        if each.is_jump_target:
            stack.clear()
        if name in _CONSTANTS:
            stack.append(None)
        elif name in _LOADS:
            stack.extend([-1] * dis.stack_effect(each.opcode, each.arg))
        elif name in _BUILDS:
            parts = pop(each.arg or 0)
            stack.append(None if all([part is None for part in parts]) else -1)
        elif name in _SUBSCRIPTS or (name == "BINARY_OP" and each.argrepr == "[]"):
            _, *key = pop(_SUBSCRIPTS.get(name, 2))
            last = offset, Site(offset, is_constant=all([part is None for part in key]))
            stack.append(offset)
        elif name == "BINARY_OP":
            left, right = [-1 if part is None else part for part in pop(2)]
            if each.argrepr in _OPERATORS:
                if max(left, right) >= 0:
                    last = offset, Site(offset, left, right)
                stack.append(offset)
            else:
                stack.append(-1)
        elif name not in _IGNORED:
            stack.clear()
    return found


class _Probe:
    """Says how many references an operator sees of operands to which nothing else refers."""

    def __add__(self, other: object) -> tuple[int, int]:
        return getrefcount(self), getrefcount(other)


# The references that an operator's two parameters count for, where the operands are temporaries.
REFERENCES: tuple[int, int] = _Probe() + _Probe()
