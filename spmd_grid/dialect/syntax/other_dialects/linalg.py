"""linalg as xdsl has it, and the named operations that xdsl leaves out."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Self

from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    ContainerType,
    DenseArrayBase,
    FloatAttr,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import ElementwiseOperation, NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import ReduceOp, YieldOp
from xdsl.ir import Block, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, region_def, var_result_def
from xdsl.parser import Parser

__all__ = ["ELEMENTWISE", "LINALG", "PRODUCTS", "ProductOp"]

# The operations of a body, on floating-point numbers; the reciprocal and the square have bodies of two operands.
_UNARY: dict[str, type[Operation]] = {
    "abs": math.AbsFOp,
    "ceil": math.CeilOp,
    "erf": math.ErfOp,
    "floor": math.FloorOp,
    "negf": arith.NegfOp,
    "rsqrt": math.RsqrtOp,
    "tanh": math.TanhOp,
}
_BINARY: dict[str, type[Operation]] = {"div": arith.DivfOp, "powf": math.PowFOp}
ELEMENTWISE = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2), "reciprocal": 1, "square": 1}
PRODUCTS = {
    "batch_matmul": "bmk,bkn->bmn",
    "batch_matvec": "bmk,bk->bm",
    "batch_vecmat": "bk,bkn->bn",
    "dot": "k,k->",
    "matvec": "mn,n->m",
    "vecmat": "m,mn->n",
}


class _WithNumbers(ElementwiseOperation, ABC):
    """An operation for each cell, of arrays and of numbers, which all cells have in common."""

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        """The loops of each operand; a number has none."""
        output = self.operands[-1].type
        rank = output.get_num_dims() if isinstance(output, ContainerType) and hasattr(output, "get_num_dims") else 0
        whole, none = AffineMap.identity(rank), AffineMap(rank, 0, ())
        return [whole if isinstance(x.type, ContainerType) else none for x in self.operands]


class _Elementwise(_WithNumbers, ABC):
    """One operation for each cell."""

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        """The body, which the pretty form leaves out."""
        types = cls.body_arg_types((*inputs, *outputs))
        block = Block(arg_types=types)
        word = cls.name.removeprefix("linalg.")
        made: list[Operation] = []
        taken: list[SSAValue] = list(block.args[: ELEMENTWISE[word]])
        is_float = isinstance(types[-1], AnyFloat)
        if word == "reciprocal":
            one = arith.ConstantOp(FloatAttr(1.0, types[-1]))  # type: ignore[arg-type]  # integers have none
            made.append(one)
            taken = [one.result, *taken]
        elif word == "square":
            taken = [*taken, *taken]
        kinds: dict[str, type[Operation]] = {
            **_UNARY,
            **_BINARY,
            "reciprocal": arith.DivfOp,
            "square": arith.MulfOp if is_float else arith.MuliOp,
        }
        if word == "div" and not is_float:
            kinds[word] = arith.DivSIOp
        found = kinds[word].create(operands=taken, result_types=[types[-1]])
        block.add_ops([*made, found, YieldOp(found.results[0])])
        return Region(block)


class ProductOp(NamedOperation, ABC):
    """Sums of products, whose loops are named by the letters of its subscripts."""

    @property
    def subscripts(self) -> str:
        """The loops of the operands and of the result."""
        return PRODUCTS[self.name.removeprefix("linalg.")]

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        """The body, which the pretty form leaves out."""
        types = cls.body_arg_types((*inputs, *outputs))
        block = Block(arg_types=types)
        is_float = isinstance(types[-1], AnyFloat)
        multiply, add = (arith.MulfOp, arith.AddfOp) if is_float else (arith.MuliOp, arith.AddiOp)
        product = multiply.create(operands=block.args[:2], result_types=[types[-1]])
        total = add.create(operands=[block.args[2], product.results[0]], result_types=[types[-1]])
        block.add_ops([product, total, YieldOp(total.results[0])])
        return Region(block)

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        """The loops of each operand."""
        letters = self._letters()
        parts = self.subscripts.replace("->", ",").split(",")
        return [AffineMap(len(letters), 0, tuple([AffineDimExpr(letters.index(x)) for x in each])) for each in parts]

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        """The loops of each operand, as an attribute."""
        return ArrayAttr([AffineMapAttr(each) for each in self.get_default_indexing_maps()])

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Loops that are left in the result are parallel."""
        left = self.subscripts.partition("->")[2]
        kinds = [IteratorTypeAttr.parallel() if x in left else IteratorTypeAttr.reduction() for x in self._letters()]
        return ArrayAttr(kinds)

    def _letters(self) -> list[str]:
        left = self.subscripts.partition("->")[2]
        return [*left, *sorted({x for x in self.subscripts if x.isalpha()} - set(left))]


@irdl_op_definition
class _ReduceOp(ReduceOp):
    """A reduction over dimensions, in its short form, too: ``linalg.reduce { arith.addf } ins(...)``."""

    name = "linalg.reduce"
    input = operand_def(TensorType.constr() | MemRefType.constr())
    init = operand_def(TensorType.constr() | MemRefType.constr())
    result = var_result_def(TensorType)
    region: Region = region_def("single_block")
    dimensions = prop_def(DenseArrayBase.constr(i64))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read either form."""
        if parser.parse_optional_punctuation("{") is None:
            return super().parse(parser)
        at = parser.pos
        combiner = parser.ctx.get_optional_op(parser.parse_identifier())
        if combiner is None or not issubclass(combiner, IRDLOperation):
            parser.raise_error("expected the name of a known operation", at)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("}")
        value, init = (cls._operand(parser, word) for word in ("ins", "outs"))
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        dimensions = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        kinds = [x.type.get_element_type() for x in (value, init) if isinstance(x.type, ContainerType)]
        if len(kinds) != 2:
            parser.raise_error(f"expected tensors or buffers, found {value.type} and {init.type}", at)
        block = Block(arg_types=kinds)
        made = combiner.build(operands=[block.args[1], block.args[0]], result_types=[kinds[1]], attributes=attributes)
        block.add_ops([made, YieldOp(made.results[0])])
        return cls(value, init, DenseArrayBase.from_list(i64, dimensions), Region(block))

    @staticmethod
    def _operand(parser: Parser, word: str) -> SSAValue:
        parser.parse_keyword(word)
        with parser.in_parens():
            found = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return parser.resolve_operand(found, parser.parse_type())


def _defined(base: type[NamedOperation], name: str) -> type[Operation]:
    return irdl_op_definition(type(f"Linalg_{name}", (base,), {"name": f"linalg.{name}", "__module__": __name__}))


def _with_numbers(op: type[Operation]) -> type[Operation]:
    """An operation of xdsl's; an elementwise one takes numbers too."""
    if not issubclass(op, ElementwiseOperation):
        return op
    return type(op.__name__, (_WithNumbers, op), {"__module__": __name__})  # its definition is inherited


LINALG = Dialect(
    "linalg",
    [
        *[_with_numbers(each) for each in linalg.Linalg.operations if each is not ReduceOp],
        _ReduceOp,
        *[_defined(_Elementwise, name) for name in ELEMENTWISE],
        *[_defined(ProductOp, name) for name in PRODUCTS],
    ],
    list(linalg.Linalg.attributes),
)
