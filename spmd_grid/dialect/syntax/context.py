"""The dialects that are read: the shard dialect, those that compute, and the older names of the shard dialect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, UnregisteredOp
from xdsl.dialects.func import Func
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr
from xdsl.ir import Attribute, Data, Operation, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from spmd_grid.dialect.syntax.other_dialects.arith import ARITH, MEMREF
from spmd_grid.dialect.syntax.other_dialects.linalg import LINALG
from spmd_grid.dialect.syntax.other_dialects.scf import SCF
from spmd_grid.dialect.syntax.other_dialects.stablehlo import STABLEHLO
from spmd_grid.dialect.syntax.other_dialects.tosa import TOSA
from spmd_grid.dialect.syntax.shard import EMITC, SHARD
from spmd_grid.program.text.calls import OWN

__all__ = ["OLD_WORDS", "ReadingContext", "own_class", "reading_context", "todays"]

# Words of the older `mesh` dialect: what they are called today.
_OLD_NAMES = {"mesh.mesh": "shard.grid", "mesh.mesh_shape": "shard.grid_shape"}
OLD_WORDS = {"grid": "mesh", "grid_axes": "mesh_axes", "scatter_dim": "scatter_axis"}


def _today(name: str) -> str:
    """The name of today of an operation, attribute or type.

    >>> _today("mesh.all_gather"), _today("mesh.mesh"), _today("arith.addf")
    ('shard.all_gather', 'shard.grid', 'arith.addf')
    """
    if name.startswith("mesh."):
        return _OLD_NAMES.get(name, "shard." + name.removeprefix("mesh."))
    if name == "numpy.dtype":
        return "emitc.opaque"
    if name.startswith("mhlo."):
        return "stablehlo." + name.removeprefix("mhlo.")
    return name


@irdl_attr_definition
class _OlderPartial(Data[ReductionKind]):
    """A reduction in the older words: ``#mesh.partial<sum>``, or ``#mesh<partial sum>``."""

    name = "mesh.partial"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ReductionKind:
        """Read the reduction, in brackets of its own or not."""
        in_brackets = parser.parse_optional_punctuation("<") is not None
        kind = parser.parse_str_enum(ReductionKind)
        if in_brackets:
            parser.parse_punctuation(">")
        return kind

    def print_parameter(self, printer: Printer) -> None:
        """Write the reduction."""
        printer.print_string(f"<{self.data.value}>")


def todays(found: Attribute) -> Attribute:
    """An attribute in today's words."""
    return ReductionKindAttr(found.data) if isinstance(found, _OlderPartial) else found


@cache
def own_class(name: str) -> type[Operation]:
    """The class of an operation of our own programs."""
    return UnregisteredOp.with_name(name)


class ReadingContext(Context):
    """A context that knows the older names, and takes operations of our own programs as they are."""

    def get_optional_op(self, name: str, *, dialect_stack: Sequence[str] = ()) -> type[Operation] | None:
        """The class of an operation, or None."""
        if name.startswith(OWN):
            return own_class(name)
        return super().get_optional_op(_today(name), dialect_stack=dialect_stack)

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        """The class of an attribute, or None."""
        if name == "mesh.partial":
            return _OlderPartial
        return super().get_optional_attr(_today(name))

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        """The class of a type, or None."""
        return super().get_optional_type(_today(name))


@cache
def reading_context() -> ReadingContext:
    """The context with all dialects that are read.  Reading changes nothing in it."""
    from xdsl.dialects import bufferization, cf, complex, dlti, math, tensor

    context = ReadingContext()
    for dialect in (Builtin, Func, EMITC, SHARD, ARITH, bufferization.Bufferization, cf.Cf, complex.Complex):
        context.load_dialect(dialect)
    for dialect in (LINALG, math.Math, dlti.DLTI, MEMREF, SCF, tensor.Tensor, STABLEHLO, TOSA):
        context.load_dialect(dialect)
    return context
