"""Older operations in today's: grids, annotations and collectives of the first years, and unsigned constants."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.dialects.arith import IntegerOverflowAttr
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i16,
    i32,
    i64,
)
from xdsl.dialects.shard import ReductionKind, ReductionKindAttr, ShardAxesArrayAttr, ShardingType
from xdsl.ir import Attribute, Operation, SSAValue

from spmd_grid.dialect.syntax.context import own_class
from spmd_grid.dialect.syntax.encodings import EncodingAttr
from spmd_grid.dialect.syntax.older import OlderOp, lists_of, older_name
from spmd_grid.dialect.syntax.other_dialects.arith import IndexCastOp
from spmd_grid.dialect.syntax.other_dialects.linalg import ProductOp
from spmd_grid.dialect.syntax.other_dialects.stablehlo.moving import DynamicSliceOp, DynamicUpdateSliceOp
from spmd_grid.dialect.syntax.other_dialects.tosa import TosaOp
from spmd_grid.dialect.syntax.renewed_tosa import renew_tosa
from spmd_grid.dialect.syntax.shard import collectives, shardings
from spmd_grid.errors import DialectError
from spmd_grid.program.text.calls import CONSTANT

__all__ = ["OlderTextError", "renew"]

_CLASSES: dict[str, type[collectives.CollectiveOp]] = {
    each.name.removeprefix("shard."): each
    for each in vars(collectives).values()
    if isinstance(each, type) and issubclass(each, collectives.CollectiveOp) and hasattr(each, "name")
}
_OPEN_LISTS = "static_halo_sizes", "static_sharded_dims_offsets"
_TENSOR_AXES = "gather_axis", "slice_axis", "split_axis", "concat_axis", "scatter_dim", "shift_axis"
_FOR_TODAY = {"mesh": "grid", "mesh_axes": "grid_axes", "scatter_axis": "scatter_dim"}


class OlderTextError(DialectError):
    """An older operation that has no meaning in today's dialect.  ``operation``: where it stands."""

    def __init__(self, operation: Operation, reason: str):
        super().__init__(reason)
        self.operation = operation


def renew(module: ModuleOp) -> None:
    """Replace older operations by those of today.  Raises OlderTextError."""
    for op in list(module.walk()):
        if isinstance(op, OlderOp) and older_name(op) == "cluster":
            _replace(op, [_grid(op)], [])
    for op in module.walk():
        if op.name == "func.func" and "mesh_cluster" in op.attributes:
            op.attributes["grid"] = op.attributes.pop("mesh_cluster")
    for op in list(module.walk()):
        if isinstance(op, OlderOp):
            new, results = _renewed(op)
            _replace(op, new, results)
        elif isinstance(op, DynamicSliceOp | DynamicUpdateSliceOp):
            _take_arrays(op)
        elif isinstance(op, TosaOp):
            renew_tosa(op)
        elif isinstance(op, ProductOp) and op.properties.get("indexing_maps") == op.get_indexing_maps():
            del op.properties["indexing_maps"]
        elif op.name == "arith.constant" and _has_sign(op.results[0].type):
            made = own_class(CONSTANT).create(result_types=[op.results[0].type], attributes=dict(op.properties))
            _replace(op, [made], made.results)
        elif op.name == "arith.trunci" and op.properties.get("overflowFlags") == IntegerOverflowAttr("none"):
            del op.properties["overflowFlags"]


def _has_sign(kind: Attribute) -> bool:
    """Whether a type, or its cells, are integers that say whether they have a sign, of which `arith` has none today."""
    element = kind.get_element_type() if isinstance(kind, TensorType) else kind
    return isinstance(element, IntegerType) and element.signedness.data is not Signedness.SIGNLESS


def _take_arrays(op: DynamicSliceOp | DynamicUpdateSliceOp) -> None:
    """Makes starts arrays of one number, and sizes a list, if they are numbers and an array, as in the RFC."""
    block = op.parent
    for number, x in enumerate(op.operands):
        if isinstance(x.type, IntegerType) and number >= op.BEFORE and block is not None:
            made = tensor.FromElementsOp.create(operands=[x], result_types=[TensorType(x.type, [])])
            made.location = op.location
            block.insert_op_before(made, op)
            op.operands[number] = made.results[0]
    sizes = op.properties.get("slice_sizes")
    if isinstance(sizes, DenseIntOrFPElementsAttr):
        op.properties["slice_sizes"] = DenseArrayBase.from_list(i64, [int(n) for n in sizes.get_values()])


def _replace(op: Operation, new: Sequence[Operation], results: Sequence[SSAValue]) -> None:
    block = op.parent
    if block is None:
        raise OlderTextError(op, "it stands outside of a module")
    for each in new:
        each.location = op.location
        block.insert_op_before(each, op)
    for old, found in zip(op.results, results, strict=True):
        found.name_hint = old.name_hint
        old.replace_all_uses_with(found)
    op.detach()
    op.erase()


def _grid(op: OlderOp) -> Operation:
    sizes = [n for each in lists_of(op.attributes.get("dim_sizes", op.attributes.get("shape"))) for n in each]
    ranks = lists_of(op.attributes.get("rank")) or [[len(sizes)]]
    rank = ranks[0][0] if ranks[0] else len(sizes)
    if rank <= 0 or rank > 64:
        raise OlderTextError(op, f"the rank of a cluster is {rank}; it must be from 1 to 64")
    if len(sizes) > rank:
        raise OlderTextError(op, f"dim_sizes has {len(sizes)} sizes, and the rank is {rank}")
    shape = [n if n > 0 else DYNAMIC_INDEX for n in [*sizes, *[0] * (rank - len(sizes))]]
    name = op.attributes.get("sym_name")
    if not isinstance(name, StringAttr):
        raise OlderTextError(op, "a cluster needs a name")
    return shardings.GridOp.create(properties={"sym_name": name, "shape": DenseArrayBase.from_list(i64, shape)})


def _grid_of(op: Operation) -> FlatSymbolRefAttr:
    """The grid that an operation, or the function around it, names; the module's only one where neither does."""
    at: Operation | None = op
    while at is not None:
        for name in ("grid", "mesh", "mesh_cluster"):
            found = {**at.attributes, **at.properties}.get(name)
            if isinstance(found, SymbolRefAttr):
                return FlatSymbolRefAttr(found.root_reference)
        if isinstance(at, ModuleOp):
            names = [each.sym_name for each in at.ops if isinstance(each, shardings.GridOp)]
            if len(names) == 1:
                return FlatSymbolRefAttr(names[0])
        at = at.parent_op()
    raise OlderTextError(op, "neither it nor the function around it names a mesh")


def _renewed(op: OlderOp) -> tuple[list[Operation], list[SSAValue]]:
    if older_name(op) in ("annotate", "shard"):
        return _annotation(op)
    if older_name(op) in ("idx", "size", "cluster_shape"):
        return _index(op)
    if older_name(op) == "local_split":
        return _chain(op, "all_slice", lists_of(op.attributes.get("sharding")))
    lists = lists_of(op.attributes.get("mesh_axis"))
    if older_name(op) == "all_gather" and "mesh_axis" in op.attributes:
        return _chain(op, "all_gather", lists)
    return _collective(op, [axis for axes in lists for axis in axes] if "mesh_axis" in op.attributes else None)


def _index(op: OlderOp) -> tuple[list[Operation], list[SSAValue]]:
    """An index of the own device, or the number of devices, along an axis."""
    found = op.attributes.get("axis", op.attributes.get("axes"))
    axes = [int(found.value.data)] if isinstance(found, IntegerAttr) else [n for each in lists_of(found) for n in each]
    kind = shardings.ProcessMultiIndexOp if older_name(op) == "idx" else shardings.GridShapeOp
    properties: dict[str, Attribute] = {"grid": _grid_of(op)}
    if axes:
        properties["axes"] = DenseArrayBase.from_list(i16, axes)
    new = kind.create(properties=properties, result_types=[IndexType() for _ in op.results])
    made: list[Operation] = [new]
    results: list[SSAValue] = []
    for number, old in zip(new.results, op.results):
        if not isinstance(old.type, IndexType | IntegerType):
            raise OlderTextError(op, f"its result is of type {old.type}; it must be index or an integer")
        cast = (
            None if isinstance(old.type, IndexType) else IndexCastOp.create(operands=[number], result_types=[old.type])
        )
        made += [] if cast is None else [cast]
        results.append(number if cast is None else cast.result)
    return made, results


def _one_operand(op: OlderOp) -> tuple[SSAValue, TensorType[Attribute]]:
    if len(op.operands) != 1 or len(op.results) != 1:
        raise OlderTextError(op, f"it has {len(op.operands)} operands and {len(op.results)} results, expected 1")
    kind = op.operands[0].type
    if not isinstance(kind, TensorType):
        raise OlderTextError(op, f"its operand is of type {kind}; it must be a ranked tensor")
    return op.operands[0], kind


def _annotation(op: OlderOp) -> tuple[list[Operation], list[SSAValue]]:
    x, kind = _one_operand(op)
    found = op.attributes.get("sharding")
    properties: dict[str, Attribute] = {}
    if isinstance(found, EncodingAttr):
        lists = [[int(n) for n in each.get_values()] for each in found.axes]
        reduction, symbol = found.kind, found.blocks.data.get("grid")
        grid = FlatSymbolRefAttr(symbol.data) if isinstance(symbol, StringAttr) else _grid_of(op)
        for_users = "annotate_for_users" in op.attributes
    else:
        lists, reduction, grid = lists_of(found), ReductionKindAttr(ReductionKind.SUM), _grid_of(op)
        for_users = not _flag(op, "as_result", True)
    rank = len(kind.get_shape())
    if len(lists) > rank + 1:
        raise OlderTextError(op, f"sharding has {len(lists)} lists; the tensor has {rank} dimensions")
    partial = lists[rank] if len(lists) > rank else []
    if isinstance(found, EncodingAttr) and "partial_axes" in found.blocks.data:
        partial = lists_of(found.blocks.data["partial_axes"])[0]
    if partial:
        properties["partial_axes"] = DenseArrayBase.from_list(i16, partial)
        properties["partial_type"] = reduction
    properties |= {"grid": grid, "split_axes": _axes_array(lists[:rank] or [[]])}
    properties |= {name: DenseArrayBase.from_list(i64, []) for name in _OPEN_LISTS}
    segments = DenseArrayBase.from_list(i32, [0, 0])
    sharding = shardings.ShardingOp.create(
        properties={**properties, "operandSegmentSizes": segments}, result_types=[ShardingType()]
    )
    hint: dict[str, Attribute] = {} if _flag(op, "required", True) else {"required": IntegerAttr(0, 1)}
    new = shardings.ShardOp.create(
        operands=[x, sharding.results[0]],
        properties={"annotate_for_users": UnitAttr()} if for_users else {},
        attributes=hint,
        result_types=[op.results[0].type],
    )
    return [sharding, new], list(new.results)


def _flag(op: Operation, name: str, default: bool) -> bool:
    found = op.attributes.get(name)
    return bool(found.value.data) if isinstance(found, IntegerAttr) else default


def _axes_array(lists: Sequence[Sequence[int]]) -> ShardAxesArrayAttr:
    return ShardAxesArrayAttr(ArrayAttr([DenseArrayBase.from_list(i16, list(axes)) for axes in lists]))


def _collective(op: OlderOp, axes: list[int] | None) -> tuple[list[Operation], list[SSAValue]]:
    """A collective whose parts are all attributes."""
    x, _ = _one_operand(op)
    attributes = {_FOR_TODAY.get(name, name): found for name, found in op.attributes.items()}
    if "tensor_axis" in attributes:
        attributes["scatter_dim"] = attributes.pop("tensor_axis")
    attributes.pop("mesh_axis", None)
    attributes["grid"] = _grid_of(op)
    if axes is not None:
        attributes["grid_axes"] = DenseArrayBase.from_list(i16, axes)
    for name in _TENSOR_AXES:
        found = attributes.get(name)
        if isinstance(found, IntegerAttr):
            attributes[name] = IntegerAttr(found.value.data, IndexType())
    reduction = attributes.get("reduction")
    if isinstance(reduction, StringAttr):
        if reduction.data not in {kind.value for kind in ReductionKind}:
            raise OlderTextError(op, f"the reduction {reduction.data!r} is unknown")
        attributes["reduction"] = ReductionKindAttr(ReductionKind(reduction.data))
    new = _CLASSES[older_name(op)].create(operands=[x], properties=attributes, result_types=[op.results[0].type])
    return [new], list(new.results)


def _chain(op: OlderOp, name: str, lists: list[list[int]]) -> tuple[list[Operation], list[SSAValue]]:
    """A collective of whole tensors for each dimension that is gathered or split."""
    x, kind = _one_operand(op)
    word = "gather_axis" if name == "all_gather" else "slice_axis"
    dims = [dim for dim, axes in enumerate(lists) if axes]
    encoding = kind.encoding
    held = [[int(n) for n in each.get_values()] for each in encoding.axes] if isinstance(encoding, EncodingAttr) else []
    if len(lists) > len(kind.get_shape()):
        raise OlderTextError(op, f"it names {len(lists)} lists; the tensor has {len(kind.get_shape())} dimensions")
    held += [[] for _ in range(len(lists) - len(held))]
    made: list[Operation] = []
    for number, dim in enumerate(dims):
        if name == "all_slice":
            held[dim] = [*held[dim], *lists[dim]]
        else:
            held[dim] = [axis for axis in held[dim] if axis not in lists[dim]]
        target = op.results[0].type if number == len(dims) - 1 else _encoded(kind, held)
        properties = {
            "grid": _grid_of(op),
            "grid_axes": DenseArrayBase.from_list(i16, lists[dim]),
            word: IntegerAttr(dim, IndexType()),
        }
        made.append(_CLASSES[name].create(operands=[x], properties=properties, result_types=[target]))
        x = made[-1].results[0]
    return made, [x]


def _encoded(kind: TensorType[Attribute], lists: Sequence[Sequence[int]]) -> TensorType[Attribute]:
    axes = ArrayAttr([DenseArrayBase.from_list(i64, list(each)) for each in lists])
    encoding = EncodingAttr(axes, ReductionKindAttr(ReductionKind.SUM), DictionaryAttr({}))
    return TensorType(kind.get_element_type(), kind.get_shape(), encoding)
