"""Cases of the dialect, given as data, written as programs."""

TENSOR_AXES = "gather_axis slice_axis split_axis concat_axis scatter_dim shift_axis offset".split()
ROOTED = {"broadcast": "root", "gather": "root", "reduce": "root", "scatter": "root", "send": "destination"}
ROOTED["recv"] = "source"
AXIS_OF = {"all_gather": "gather_axis", "gather": "gather_axis", "scatter": "scatter_dim"}
AXIS_OF |= {"reduce_scatter": "scatter_dim", "all_slice": "slice_axis", "shift": "shift_axis"}


def sizes_text(sizes):
    """Extents with question marks, as types and grids are written."""
    return "x".join("?" if n is None else str(n) for n in sizes)


def tensor(shape, dtype):
    """The type of a tensor."""
    return f"tensor<{''.join(f'{n}x' for n in sizes_text(shape).split('x') if n)}{dtype}>"


def grid_text(case):
    """The grid of a case; none if it has none."""
    if case["grid"] is None:
        return ""
    return f"shard.grid @grid0(shape = {sizes_text(case['grid']) or '[]'})\n"


def sharding_text(case):
    """The sharding of a case."""
    text = f"shard.sharding @grid0 split_axes = {case['split_axes']}"
    for word in ("halo_sizes", "sharded_dims_offsets"):
        text += f" {word} = {case[word]}" if word in case else ""
    return text + " : !shard.sharding"


def collective_text(case, operand="%x"):
    """A collective with its types; the parts that a refused case leaves out are harmless ones."""
    op = case["op"]
    source, result = tensor(*_types(case)[0]), tensor(*_types(case)[1])
    words = [f"grid_axes = {case['grid_axes']}"] if "grid_axes" in case else []
    if case.get("reduction"):
        words.append(f"reduction = {case['reduction']}")
    if op in AXIS_OF and AXIS_OF[op] not in case:
        words.append(f"{AXIS_OF[op]} = 0")
    words += [f"{word} = {case[word]}" for word in TENSOR_AXES if word in case]
    words += ["offset = 1"] if op == "shift" and "offset" not in case else []
    words += ["rotate"] if case.get("rotate") else []
    if op in ROOTED:
        device = next((case[key] for key in ("root", "destination", "source_device") if key in case), _no_device(case))
        words += [f"{ROOTED[op]} = {device}"] if device is not None else []
        types = f"({source}) -> {result}"
    else:
        types = f"{source} -> {result}"
    return f"shard.{op} {operand} on @grid0 {' '.join(words)} : {types}", source


def _no_device(case):
    return None if case["op"] == "recv" else [0] * len(case.get("grid_axes", []))


def _types(case):
    """Shapes and element types of the input and of the result."""
    before = case.get("in", [4])
    after = case.get("out", before)
    dtype = case.get("in_dtype", "f32")
    return (before, dtype), (after, case.get("out_dtype", dtype))


def program_of(case):
    """The program of a case, and the line that its operation stands on."""
    grid, op = grid_text(case), case["op"]
    if op == "grid":
        return grid, 1
    arguments = ""
    if op == "sharding":
        lines = [f"%s = {sharding_text(case)}"]
        if "shape" in case:
            kind = tensor(case["shape"], "f32")
            arguments = f"%x: {kind}"
            lines.append(f"%0 = shard.shard %x to %s : {kind}")
    elif op in ("grid_shape", "process_multi_index", "process_linear_index"):
        count = case.get("results", len(case.get("axes", [0])))
        axes = f" axes = {case['axes']}" if "axes" in case else ""
        on = "" if op == "grid_shape" else "on "
        names = "%0" if count == 1 else f"%0:{count}"
        lines = [f"{names} = shard.{op} {on}@grid0{axes} : {', '.join(['index'] * count)}"]
    elif op == "neighbors_linear_indices":
        arguments = "%i: index"
        device = ", ".join(["%i"] * len(case["grid"]))
        lines = [f"%0:2 = shard.{op} on @grid0[{device}] split_axes = {case['split_axes']} : index, index"]
    elif op == "update_halo":
        kind = tensor(case["in"], "i8").replace("tensor", "memref")
        arguments = f"%x: {kind}"
        halos = f"split_axes = {case['split_axes']} halo_sizes = {case['halo_sizes']}"
        lines = [f"%0 = shard.update_halo %x on @grid0 {halos} : {kind}"]
    else:
        text, kind = collective_text(case)
        arguments, lines = f"%x: {kind}", [f"%0 = {text}"]
    body = "".join(f"  {line}\n" for line in lines)
    return f"{grid}func.func @f({arguments}) {{\n{body}  return\n}}\n", grid.count("\n") + 1 + len(lines)


def _named_sharding(name, lists, halos=None, partial=None):
    shown = f" partial = {partial['kind']} {partial['axes']}" if partial else ""
    shown += f" halo_sizes = {halos}" if halos else ""
    return f"  %{name} = shard.sharding @g split_axes = {lists} {shown} : !shard.sharding\n"


def resharding_text(case):
    """A function that reshards its argument."""
    kind = tensor(case["shape"], "i32")
    source, target = case.get("from", case.get("split_axes")), case.get("to", case.get("split_axes"))
    return (
        f"func.func @{case['name']}(%x: {kind}) -> {kind} {{\n"
        f"{_named_sharding('s', source, partial=case.get('from_partial'))}"
        f"{_named_sharding('t', target, halos=case.get('halo_to'))}"
        f"  %0 = shard.shard %x to %s : {kind}\n"
        f"  %1 = shard.shard %0 to %t annotate_for_users : {kind}\n  return %1 : {kind}\n}}\n"
    )
