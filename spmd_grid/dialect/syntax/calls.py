"""Translates our own operations to calls of declared functions, as the text has them, and back.

After the reader there is ``"numpy.abs"(%x) {axis = 1}``, of which ``call @numpy.abs(%x) {spmd_grid.axis = 1}`` and the
declaration of ``@numpy.abs`` are the text (`program/text/calls`).  Our attributes of other
operations lose their prefix when read, and get it again when printed.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
    i16,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr
from xdsl.ir import Attribute, Operation

from spmd_grid.dialect.syntax.context import own_class
from spmd_grid.dialect.syntax.encodings import is_encoded
from spmd_grid.dialect.syntax.older import lists_of
from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.syntax.shard.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllSliceOp,
    AllToAllOp,
    CollectiveOp,
    ReduceScatterOp,
)
from spmd_grid.dialect.syntax.shard.shardings import GridOp, ShardingOp, ShardOp
from spmd_grid.program.text.calls import OWN, PREFIX, Calls, called_name

__all__ = ["as_calls", "as_operations"]

_OF_GRIDS = ("ranks",)
_OF_FUNCTIONS = "grid", "sources", "targets"
_OF_SHARDINGS = "blocks", "block_starts", "open_dims", "partial_axes", "partial_kind"
_OF_ANNOTATIONS = "required", "priority", "replicated_axes"
_OF_ALL = "sharding"  # the RFC's option on operations
_WORDS: dict[type[Operation], tuple[str, ...]] = {
    GridOp: _OF_GRIDS,
    FuncOp: _OF_FUNCTIONS,
    ShardingOp: _OF_SHARDINGS,
    ShardOp: _OF_ANNOTATIONS,
}
_COLLECTIVES: dict[str, type[CollectiveOp]] = {
    each.name.replace("shard.", PREFIX): each
    for each in (AllGatherOp, AllReduceOp, AllSliceOp, AllToAllOp, ReduceScatterOp)
}
_NAMES: dict[type[Operation], str] = {each: name for name, each in _COLLECTIVES.items()}
_KINDS = {kind.value: kind for kind in ReductionKind}


# -- read ----------------------------------------------------------------------------------------------------------


def as_operations(module: ModuleOp) -> None:
    """Put operations of our own in the place of calls of declared functions.  Raises DialectVerifyError."""
    declared = {each.sym_name.data: each for each in module.ops if isinstance(each, FuncOp) and _is_declared(each)}
    for op in list(module.walk()):
        if isinstance(op, CallOp) and op.callee.string_value() in declared:
            _replace(op, _operation(op, declared[op.callee.string_value()]))
        elif not isinstance(op, UnregisteredOp):
            op.attributes = {_bare(name): found for name, found in op.attributes.items()}
            if isinstance(op, ShardingOp):
                _read_partial(op)
    for each in declared.values():
        each.detach()
        each.erase()


def _is_declared(function: FuncOp) -> bool:
    return function.sym_name.data.startswith(OWN) and not function.body.blocks


def _bare(name: str) -> str:
    return name.removeprefix(PREFIX)


def _operation(call: CallOp, declared: FuncOp) -> Operation:
    given, kind = (tuple(x.type for x in call.operands), tuple(x.type for x in call.results)), declared.function_type
    if given != (tuple(kind.inputs), tuple(kind.outputs)):
        raise verify_error(call, f"operands and results are not those of @{declared.sym_name.data}, {kind}")
    name = called_name(declared.sym_name.data)
    attributes = {_bare(word): found for word, found in call.attributes.items()}
    if name in _COLLECTIVES and any(map(is_encoded, (*given[0], *given[1]))):
        return _collective(call, _COLLECTIVES[name], attributes)
    return own_class(name).create(operands=list(call.operands), result_types=given[1], attributes=attributes)


def _collective(call: CallOp, made: type[CollectiveOp], plain: dict[str, Attribute]) -> Operation:
    """A collective between tensors of global types, of which the dialect's verifier takes those of blocks alone."""
    properties = dict(plain)
    axes = lists_of(plain.get("grid_axes"))
    if len(axes) > 1 or any(not -(2**15) <= n < 2**15 for each in axes for n in each):
        raise verify_error(call, f"grid_axes must be a list of grid axes, found {plain.get('grid_axes')}")
    properties["grid_axes"] = DenseArrayBase.from_list(i16, axes[0] if axes else [])
    for word, found in plain.items():
        if word == "reduction":
            if not isinstance(found, StringAttr) or found.data not in _KINDS:
                raise verify_error(call, f"reduction must be one of {', '.join(_KINDS)}, found {found}")
            properties[word] = ReductionKindAttr(_KINDS[found.data])
        elif isinstance(found, IntegerAttr):
            properties[word] = IntegerAttr(found.value.data, IndexType())
    known = {word: found for word, found in properties.items() if word in made.get_irdl_definition().properties}
    others = {word: found for word, found in plain.items() if word not in known}
    types = [x.type for x in call.results]
    return made.create(operands=list(call.operands), result_types=types, properties=known, attributes=others)


def _replace(old: Operation, new: Operation) -> None:
    new.location = old.location
    block = old.parent
    if block is None:
        raise verify_error(old, "a call stands outside of a function")
    block.insert_op_before(new, old)
    for before, after in zip(old.results, new.results):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    old.detach()
    old.erase()


def _read_partial(op: ShardingOp) -> None:
    axes, kind = op.attributes.pop("partial_axes", None), op.attributes.pop("partial_kind", None)
    if axes is None and kind is None:
        return
    lists = lists_of(axes)
    if len(lists) != 1 or any(not 0 <= n < 2**15 for n in lists[0]):
        raise verify_error(op, f"partial_axes must be a list of grid axes, found {axes}")
    word = kind.data if isinstance(kind, StringAttr) else "sum"
    if word not in _KINDS or not (kind is None or isinstance(kind, StringAttr)):
        raise verify_error(op, f"partial_kind must be one of {', '.join(_KINDS)}, found {kind}")
    op.partial_axes, op.partial_type = DenseArrayBase.from_list(i16, lists[0]), ReductionKindAttr(_KINDS[word])


# -- printed -------------------------------------------------------------------------------------------------------


def as_calls(module: ModuleOp) -> ModuleOp:
    """A copy of a module with calls of declared functions in the place of operations of our own."""
    copy, calls = module.clone(), Calls()
    declared: dict[str, FuncOp] = {}
    for op in list(copy.walk()):
        if isinstance(op, UnregisteredOp) or _is_global(op):
            _replace(op, _call(op, calls, declared))
            continue
        if isinstance(op, ShardingOp):
            _write_partial(op)
        own = {*_WORDS.get(type(op), ()), _OF_ALL}
        op.attributes = {PREFIX + name if name in own else name: found for name, found in op.attributes.items()}
    for each in declared.values():
        copy.body.block.add_op(each)
    return copy


def _is_global(op: Operation) -> bool:
    """Whether an operation is a collective between tensors of global types."""
    return type(op) in _NAMES and any(is_encoded(x.type) for x in (*op.operands, *op.results))


def _call(op: Operation, calls: Calls, declared: dict[str, FuncOp]) -> CallOp:
    given = {**op.attributes, **op.properties}
    name = op.op_name.data if isinstance(op, UnregisteredOp) else _NAMES[type(op)]
    if type(op) in _NAMES:
        given = {word: _plain(found) for word, found in given.items()}
    types = [x.type for x in op.operands], [x.type for x in op.results]
    symbol = calls.symbol(name, *[list(map(str, each)) for each in types])
    declared.setdefault(symbol, FuncOp.external(symbol, *types))
    call = CallOp(symbol, list(op.operands), types[1])
    call.attributes = {PREFIX + word: found for word, found in given.items() if word != "op_name__"}
    return call


def _plain(found: Attribute) -> Attribute:
    """A property of a collective as a plain attribute."""
    if isinstance(found, DenseArrayBase):
        return ArrayAttr([IntegerAttr(int(n), i64) for n in found.get_values()])
    if isinstance(found, ReductionKindAttr):
        return StringAttr(found.data.value)
    return IntegerAttr(found.value.data, i64) if isinstance(found, IntegerAttr) else found


def _write_partial(op: ShardingOp) -> None:
    axes, kind = op.partial
    if op.partial_axes is None:
        return
    op.partial_axes = op.partial_type = None
    op.attributes["partial_axes"] = ArrayAttr([IntegerAttr(n, i64) for n in axes])
    if kind != "sum":
        op.attributes["partial_kind"] = StringAttr(kind)
