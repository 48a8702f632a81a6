"""The part of tosa that computes on whole tensors: elementwise operations, products, reductions, moves of dimensions.

All are printed alike: operands, attributes, and the type of the function.  Zero points may be left out, and older
names of attributes are read.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

__all__ = ["OPERANDS", "OPERATIONS", "TOSA", "ShapeType", "TosaOp", "propagates_nan"]

# Operation: the numbers of operands that it takes, and its attributes.
_UNARY = (
    "abs bitwise_not cast ceil cos erf exp floor identity log logical_not reciprocal rsqrt sigmoid sin tanh"
).split()
_BINARY = (
    "add bitwise_and bitwise_or bitwise_xor equal greater greater_equal intdiv logical_and logical_or logical_xor "
    "pow sub"
).split()
_REDUCTIONS = "all any max min product sum".split()
OPERANDS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    **dict.fromkeys(_UNARY, ((1,), ())),
    **dict.fromkeys(_BINARY, ((2,), ())),
    **dict.fromkeys(("maximum", "minimum"), ((2,), ("nan_mode",))),
    **{f"reduce_{name}": ((1,), ("axis", "nan_mode")) for name in _REDUCTIONS},
    "clamp": ((1,), ("max_val", "min_val", "nan_mode")),
    "concat": ((), ("axis",)),
    "const": ((0,), ("values", "value")),
    "const_shape": ((0,), ("values", "value")),
    "matmul": ((2, 4), ("a_zp", "b_zp")),
    "mul": ((2, 3), ("shift",)),
    "negate": ((1, 3), ("input1_zp", "output_zp")),
    "reshape": ((1, 2), ("new_shape",)),
    "reverse": ((1,), ("axis",)),
    "select": ((3,), ()),
    "transpose": ((1, 2), ("perms",)),
}
_NEEDED = {"axis", "max_val", "min_val"}


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """The type of a shape that is a value: ``!tosa.shape<2>``."""

    name = "tosa.shape"
    rank: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Read the rank."""
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))]

    def print_parameters(self, printer: Printer) -> None:
        """Write the rank."""
        with printer.in_angle_brackets():
            printer.print_int(self.rank.data)


@irdl_attr_definition
class NanModeAttr(ParametrizedAttribute):
    """The result of an operation of which an operand is NaN: ``#tosa.nan_mode<PROPAGATE>``."""

    name = "tosa.nan_mode"
    mode: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Read the word."""
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_identifier())]

    def print_parameters(self, printer: Printer) -> None:
        """Write the word."""
        with printer.in_angle_brackets():
            printer.print_string(self.mode.data)


def propagates_nan(mode: Attribute | None) -> bool:
    """Whether a mode is the usual one, in today's form or as a text, which it was once."""
    word = mode.mode if isinstance(mode, NanModeAttr) else mode
    return word == StringAttr("PROPAGATE")


class TosaOp(IRDLOperation, ABC):
    """An operation of tosa: operands, attributes by name, one result."""

    inputs = var_operand_def(TensorType.constr() | BaseAttr(ShapeType))
    output = result_def(TensorType.constr() | BaseAttr(ShapeType))
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        """Check the number of operands, and that no attribute is missing."""
        counts, attributes = OPERANDS[self.name.removeprefix("tosa.")]
        if counts and len(self.inputs) not in counts:
            wanted = " or ".join(map(str, counts))
            raise VerifyException(f"expected {wanted} operands, found {len(self.inputs)}")
        if not counts and not self.inputs:
            raise VerifyException("expected at least 1 operand, found 0")
        if "nan_mode" in self.properties:  # the usual one is left out when it is read
            raise VerifyException(f"nan_mode {self.properties['nan_mode']} is not executed; PROPAGATE is")
        for name in attributes:
            if name in _NEEDED and name not in self.properties:
                raise VerifyException(f"the attribute {name!r} is missing")


def _operation(name: str, attributes: tuple[str, ...]) -> type[IRDLOperation]:
    parts: dict[str, Any] = {"name": f"tosa.{name}", "__module__": __name__}
    parts |= {each: opt_prop_def(Attribute) for each in attributes}
    if name == "const":
        parts["assembly_format"] = None  # the dialect has no pretty form of it
    return irdl_op_definition(type(f"Tosa_{name}", (TosaOp,), parts))


OPERATIONS = {f"tosa.{name}": _operation(name, attributes) for name, (_, attributes) in OPERANDS.items()}
TOSA = Dialect("tosa", list(OPERATIONS.values()), [NanModeAttr, ShapeType])
