"""Temporaries of one expression: arrays that only the next operator will ever see, which writes its result there.

    0.25 * (a[:-1] + a[1:] + b)      a[:-1] + a[1:] gets new memory; both other operators write to it

numpy does the same in large arrays, and finds its temporaries by their references and the stack of C functions.  Here
the operator looks at the instruction that the calling function is at.  A mark is the address of a function's frame, and
the offset of an instruction in its code.  An operand is a temporary if

- within that function, without a jump, a call or an assignment between, the operand is what another instruction left on
  the stack: so reads the function's code;
- it carries the mark of that very instruction in that very call of the function.  Slices get one, and results of
  operators one of whose operands carries the right one: so an operand that comes out of a container never does;
- nothing else refers to it, it lends and borrows no memory, and the program has had no view of it.
"""

from __future__ import annotations

import dis
from sys import getrefcount
from types import CodeType, FrameType

__all__ = ["REFERENCES", "mark_of", "site_of"]

_MOST_KEPT = 512
_SHIFT = 48  # addresses have fewer bits
_LOADS = frozenset(
    (
        *("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_CONST", "LOAD_SMALL_INT"),
        *("LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"),
    )
)
_SUBSCRIPTS = {"BINARY_SUBSCR": 2, "BINARY_SLICE": 3}
_BUILDS = frozenset(("BUILD_SLICE", "BUILD_TUPLE"))
_IGNORED = frozenset(("CACHE", "NOP", "EXTENDED_ARG", "RESUME"))
_OPERATORS = frozenset("+-*/")

# For each operator of a code object, by its offset, the offsets of the instructions that leave its operands; -1: none.
_Sources = dict[int, tuple[int, int]]
_known: dict[int, tuple[CodeType, _Sources]] = {}  # by the address of the code object, which is kept


def site_of(frame: FrameType) -> tuple[int, int, int] | None:
    """The marks of both operands of the operator that ``frame`` is at, if they are temporaries, and of its result.

    Local.  -1 for an operand that is none; None where no operand is one.
    """
    code, offset = frame.f_code, frame.f_lasti
    found = _known.get(id(code))
    sources = (found[1] if found is not None else _read(code)).get(offset)
    if sources is None:
        return None
    (left, right), place = sources, id(frame)
    return (
        place + (left << _SHIFT) if left >= 0 else -1,
        place + (right << _SHIFT) if right >= 0 else -1,
        place + (offset << _SHIFT),
    )


def mark_of(frame: FrameType) -> int:
    """The mark of what the instruction that ``frame`` is at leaves.  Local."""
    return id(frame) + (frame.f_lasti << _SHIFT)


def _read(code: CodeType) -> _Sources:
    if len(_known) >= _MOST_KEPT:
        _known.clear()
    sources = _sources_in(code)
    _known[id(code)] = code, sources
    return sources


def _sources_in(code: CodeType) -> _Sources:
    """The sources of the operands of all operators; those of others than + - * / are left out.

    ``stack`` holds, from the top downwards as far as it is known, the offset of the instruction that left each value.
    """
    sources: _Sources = {}
    stack: list[int] = []

    def pop(n: int) -> list[int]:
        taken = [-1] * max(n - len(stack), 0) + stack[max(len(stack) - n, 0) :]
        del stack[max(len(stack) - n, 0) :]
        return taken

    for each in dis.get_instructions(code):
        name = each.opname
        if each.is_jump_target:
            stack.clear()
        if name in _LOADS:
            stack.extend([-1] * dis.stack_effect(each.opcode, each.arg))
        elif name in _BUILDS:
            pop(each.arg or 0)
            stack.append(-1)
        elif name in _SUBSCRIPTS or (name == "BINARY_OP" and each.argrepr == "[]"):
            pop(_SUBSCRIPTS.get(name, 2))
            stack.append(each.offset)
        elif name == "BINARY_OP":
            left, right = pop(2)
            if each.argrepr in _OPERATORS:
                if max(left, right) >= 0:
                    sources[each.offset] = left, right
                stack.append(each.offset)
            else:
                stack.append(-1)
        elif name not in _IGNORED:
            stack.clear()
    return sources


class _Probe:
    """Says how many references an operator sees of operands to which nothing else refers."""

    def __add__(self, other: object) -> tuple[int, int]:
        return getrefcount(self), getrefcount(other)


# The references that an operator's two parameters count for, where the operands are temporaries.
REFERENCES: tuple[int, int] = _Probe() + _Probe()
