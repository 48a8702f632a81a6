"""Random well-typed modules, with the numpy functions that they mean."""

import numpy as np

UNARY = {
    "math.tanh": np.tanh,
    "math.absf": np.abs,
    "arith.negf": np.negative,
    "math.sin": np.sin,
}
BINARY = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.maximumf": np.maximum,
}
REDUCED = {"arith.addf": ("0.0", np.sum), "arith.maximumf": ("0xFFF0000000000000", np.max)}


def tensor(shape):
    return f"tensor<{''.join(f'{n}x' for n in shape)}f64>"


def maps_text(*lists, loops):
    """Indexing maps, as ``linalg.generic`` has them."""
    names = ", ".join(f"d{i}" for i in range(loops))
    shown = [f"affine_map<({names}) -> ({', '.join(f'd{i}' for i in dims)})>" for dims in lists]
    return f"[{', '.join(shown)}]"


class AnnotatedModule:
    """A function of random steps on whole arrays, with random annotations.  ``text``; ``expected`` on arguments."""

    def __init__(self, seed, grid, even=False):
        self.rng = np.random.default_rng(seed)
        self.grid = grid
        self.even = even
        self.lines = []
        self.values = []  # (name, shape, function of the list of arguments)
        n_arguments = int(self.rng.integers(2, 4))
        self.shapes = [self._shape(2) for _ in range(n_arguments)]
        for i, shape in enumerate(self.shapes):
            self.values.append((f"%arg{i}", shape, lambda given, i=i: given[i]))
        for i in range(n_arguments):
            if self.rng.random() < 0.7:
                self._annotate(i, for_users=False)
        for step in range(int(self.rng.integers(3, 8))):
            self._step(step)
        self.results = [self.values[-1], self.values[int(self.rng.integers(len(self.values)))]]
        parameters = ", ".join(f"%arg{i}: {tensor(shape)}" for i, shape in enumerate(self.shapes))
        types = ", ".join(tensor(shape) for _, shape, _ in self.results)
        names = ", ".join(name for name, _, _ in self.results)
        body = "\n".join(f"  {line}" for line in self.lines)
        sizes = "x".join(map(str, grid))
        self.text = (
            f"shard.grid @g(shape = {sizes})\n\nfunc.func @main({parameters}) -> ({types}) {{\n"
            f"  %whole = shard.sharding @g split_axes = [[]] : !shard.sharding\n"
            f"  %seen = shard.shard %arg0 to %whole annotate_for_users : {tensor(self.shapes[0])}\n"
            f"{body}\n  return {names} : {types}\n}}\n"
        )

    def arguments(self):
        return [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(self.shapes)]

    def expected(self):
        given = self.arguments()
        return [function(given) for _, _, function in self.results]

    def _shape(self, rank):
        choices = (6, 12) if self.even else (1, 3, 5, 6, 8)
        return tuple(int(self.rng.choice(choices)) for _ in range(rank))

    def _pick(self, *tests):
        found = [value for value in self.values if all(test(value[1]) for test in tests)]
        return found[int(self.rng.integers(len(found)))] if found else None

    def _new(self, shape, text, function):
        name = f"%v{len(self.values)}"
        self.lines.append(f"{name} = {text}")
        self.values.append((name, tuple(shape), function))

    def _annotate(self, number, for_users):
        name, shape, function = self.values[number]
        axes = list(self.rng.permutation(len(self.grid)))[: int(self.rng.integers(len(self.grid) + 1))]
        lists = [[] for _ in shape]
        for axis in axes:
            lists[int(self.rng.integers(len(shape)))].append(int(axis))
        made = f"%s{len(self.lines)}"
        self.lines.append(f"{made} = shard.sharding @g split_axes = {lists} : !shard.sharding")
        users = " annotate_for_users" if for_users else ""
        self._new(shape, f"shard.shard {name} to {made}{users} : {tensor(shape)}", function)
        if not for_users:
            self.values[number] = self.values[-1]

    def _step(self, step):
        kind = self.rng.choice(["unary", "binary", "matmul", "transpose", "reduce", "annotate", "splat"])
        getattr(self, f"_{kind}_step")()

    def _unary_step(self):
        name, shape, f = self._pick()
        op = str(self.rng.choice(list(UNARY)))
        self._new(shape, f"{op} {name} : {tensor(shape)}", lambda given: UNARY[op](f(given)))

    def _binary_step(self):
        a, shape, f = self._pick()
        b, _, g = self._pick(lambda other: other == shape)
        op = str(self.rng.choice(list(BINARY)))
        self._new(shape, f"{op} {a}, {b} : {tensor(shape)}", lambda given: BINARY[op](f(given), g(given)))

    def _splat_step(self):
        name, shape, f = self._pick()
        made = f"%c{len(self.lines)}"
        self.lines.append(f"{made} = arith.constant dense<0.25> : {tensor(shape)}")
        self._new(shape, f"arith.addf {name}, {made} : {tensor(shape)}", lambda given: f(given) + 0.25)

    def _annotate_step(self):
        self._annotate(int(self.rng.integers(len(self.values))), for_users=True)

    def _matmul_step(self):
        first = self._pick(lambda shape: len(shape) == 2)
        second = first and self._pick(lambda shape: len(shape) == 2 and shape[0] == first[1][1])
        if second is None:
            return
        (a, left, f), (b, right, g) = first, second
        shape = (left[0], right[1])
        made = self._filled(shape, "0.0")
        types = f"{tensor(left)}, {tensor(right)}"
        text = f"linalg.matmul ins({a}, {b} : {types}) outs({made} : {tensor(shape)}) -> {tensor(shape)}"
        self._new(shape, text, lambda given: f(given) @ g(given))

    def _filled(self, shape, number):
        n = len(self.lines)
        self.lines.append(f"%n{n} = arith.constant {number} : f64")
        self.lines.append(f"%e{n} = tensor.empty() : {tensor(shape)}")
        text = f"linalg.fill ins(%n{n} : f64) outs(%e{n} : {tensor(shape)}) -> {tensor(shape)}"
        self.lines.append(f"%f{n} = {text}")
        return f"%f{n}"

    def _generic(self, x, shape, result, kinds, out, body):
        loops = len(shape)
        lists = list(range(loops)), result
        shown = ", ".join(f'"{kind}"' for kind in kinds)
        kept = tuple(shape[d] for d in result)
        attributes = f"indexing_maps = {maps_text(*lists, loops=loops)}, iterator_types = [{shown}]"
        return (
            f"linalg.generic {{{attributes}}} ins({x} : {tensor(shape)}) outs({out} : {tensor(kept)}) {{\n"
            f"  ^bb0(%in: f64, %out: f64):\n    %r = {body} : f64\n    linalg.yield %r : f64\n  }} -> {tensor(kept)}"
        )

    def _transpose_step(self):
        found = self._pick(lambda shape: len(shape) == 2)
        if found is None:
            return
        name, shape, f = found
        out = self._filled(shape[::-1], "0.0")
        text = self._generic(name, shape, [1, 0], ["parallel"] * 2, out, "math.exp2 %in")
        self._new(shape[::-1], text, lambda given: np.exp2(f(given)).T)

    def _reduce_step(self):
        found = self._pick(lambda shape: len(shape) == 2)
        if found is None:
            return
        name, shape, f = found
        d = int(self.rng.integers(2))
        op = str(self.rng.choice(list(REDUCED)))
        number, function = REDUCED[op]
        kinds = ["reduction" if i == d else "parallel" for i in range(2)]
        out = self._filled((shape[1 - d],), number)
        text = self._generic(name, shape, [1 - d], kinds, out, f"{op} %out, %in")
        self._new((shape[1 - d],), text, lambda given: function(f(given), axis=d))


class LocalModule:
    """A function of random collectives on local arrays, whose extents divide.  ``text``."""

    def __init__(self, seed, grid):
        rng = np.random.default_rng(seed)
        shape, self.grid = [12, 12], grid
        self.shape = tuple(shape)
        lines, name = [], "%x"
        for n in range(int(rng.integers(3, 7))):
            axes = [int(axis) for axis in rng.permutation(len(grid))[: int(rng.integers(1, len(grid) + 1))]]
            group = int(np.prod([grid[axis] for axis in axes]))
            d, e = int(rng.integers(2)), int(rng.integers(2))
            ops = ["all_reduce", "shift", "broadcast"]
            ops += ["all_slice", "reduce_scatter", "scatter", "all_to_all"] if shape[d] % group == 0 else []
            ops += ["all_gather"] if max(shape) < 50 else []
            op = str(rng.choice(ops))
            new, root = list(shape), [int(rng.integers(grid[axis])) for axis in axes]
            kind = str(rng.choice(["sum", "max", "min", "product"]))
            if op == "all_gather":
                new[d] *= group
                text = f"gather_axis = {d}"
            elif op == "all_to_all":
                new[d] //= group
                new[e] *= group
                text = f"split_axis = {d} concat_axis = {e}"
            elif op in ("all_slice", "reduce_scatter", "scatter"):
                new[d] //= group
                reduction = f"reduction = {kind} " if op == "reduce_scatter" else ""
                text = f"{reduction}{'slice_axis' if op == 'all_slice' else 'scatter_dim'} = {d}"
                text += f" root = {root}" if op == "scatter" else ""
            elif op == "broadcast":
                text = f"root = {root}"
            elif op == "shift":
                text = f"shift_axis = {axes[0]} offset = {int(rng.integers(-2, 3))} rotate"
            else:
                text = f"reduction = {kind}"
            before, after = (f"tensor<{a}x{b}xi64>" for a, b in (shape, new))
            types = f"({before}) -> {after}" if op in ("broadcast", "scatter") else f"{before} -> {after}"
            lines.append(f"%v{n} = shard.{op} {name} on @g grid_axes = {axes} {text} : {types}")
            name, shape = f"%v{n}", new
        body = "\n".join(f"  {line}" for line in lines)
        self.text = (
            f"shard.grid @g(shape = {'x'.join(map(str, grid))})\n\nfunc.func @main(%x: tensor<12x12xi64>)"
            f" -> {after} {{\n{body}\n  return {name} : {after}\n}}\n"
        )
