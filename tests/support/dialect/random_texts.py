"""Random programs of the dialect, well typed by construction, from a seed."""

import random
from math import prod


class Writer:
    """Writes a function of tensors on a grid, one operation at a time, on values whose shapes it knows."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.grid = [self.random.randint(1, 3) for _ in range(self.random.randint(1, 3))]
        self.lines, self.values, self.count = [], [], 0
        self.dtype = self.random.choice(["f32", "f64", "i32"])

    def program(self, length=8):
        """The text of a program."""
        arguments = []
        for n in range(2):
            shape = [self.random.choice([1, 2, 6, 12]) for _ in range(self.random.randint(1, 3))]
            self.values.append((f"%a{n}", tuple(shape)))
            arguments.append(f"%a{n}: {self.kind(shape)}")
        for _ in range(length):
            self.random.choice([self.collective, self.collective, self.compute, self.move, self.sharded])()
        name, shape = self.values[-1]
        grid = f"shard.grid @grid0(shape = {'x'.join(map(str, self.grid))})"
        body = "".join(f"  {line}\n" for line in self.lines)
        head = f"func.func @main({', '.join(arguments)}) -> {self.kind(shape)}"
        return f"{grid}\n{head} {{\n{body}  return {name} : {self.kind(shape)}\n}}\n"

    def kind(self, shape):
        return f"tensor<{''.join(f'{n}x' for n in shape)}{self.dtype}>"

    def define(self, text, shape):
        self.count += 1
        self.lines.append(f"%{self.count} = {text}")
        self.values.append((f"%{self.count}", tuple(shape)))

    def collective(self):
        """A collective along random axes that divides the dimension it cuts."""
        name, shape = self.random.choice(self.values)
        axes = self.random.sample(range(len(self.grid)), self.random.randint(0, len(self.grid)))
        group, dim = prod(self.grid[axis] for axis in axes), self.random.randrange(len(shape))
        on, before = f"{name} on @grid0 grid_axes = {axes}", self.kind(shape)
        cut = (*shape[:dim], shape[dim] // group, *shape[dim + 1 :])
        grown = (*shape[:dim], shape[dim] * group, *shape[dim + 1 :])
        root = f"root = {[self.random.randrange(self.grid[axis]) for axis in axes]}"
        kind = self.random.choice(["", " reduction = max", " reduction = product"])
        choices = [
            (f"shard.all_reduce {on}{kind} : {before} -> {before}", shape),
            (f"shard.broadcast {on} {root} : ({before}) -> {before}", shape),
        ]
        if prod(grown) <= 2000:
            choices.append((f"shard.all_gather {on} gather_axis = {dim} : {before} -> {self.kind(grown)}", grown))
        if shape[dim] % group == 0:
            after = self.kind(cut)
            choices += [
                (f"shard.all_slice {on} slice_axis = {dim} : {before} -> {after}", cut),
                (f"shard.reduce_scatter {on}{kind} scatter_dim = {dim} : {before} -> {after}", cut),
                (f"shard.scatter {on} scatter_dim = {dim} {root} : ({before}) -> {after}", cut),
                (f"shard.all_to_all {on} split_axis = {dim} concat_axis = {dim} : {before} -> {before}", shape),
            ]
        if axes:
            by = f"shift_axis = {self.random.choice(axes)} offset = {self.random.randint(-2, 2)} rotate"
            choices.append((f"shard.shift {on} {by} : {before} -> {before}", shape))
        self.define(*self.random.choice(choices))

    def compute(self):
        """A sum of two values of one shape, or of one with a constant."""
        name, shape = self.random.choice(self.values)
        others = [each for each, other in self.values if other == shape]
        word = "arith.addi" if self.dtype == "i32" else "arith.addf"
        other = self.random.choice(others)
        if self.random.random() < 0.3:
            number = self.random.choice([0, 7, -3]) if self.dtype == "i32" else self.random.choice([0.1, 1e-300, -2.5])
            number = f"{number:.17e}" if isinstance(number, float) else number
            self.define(f"arith.constant dense<{number}> : {self.kind(shape)}", shape)
            other = self.values[-1][0]
        self.define(f"{word} {name}, {other} : {self.kind(shape)}", shape)

    def move(self):
        """A slice, or all cells in one dimension."""
        name, shape = self.random.choice(self.values)
        starts = [self.random.randrange(n) for n in shape]
        sizes = [self.random.randint(1, n - start) for n, start in zip(shape, starts)]
        if self.random.random() < 0.5:
            ones = [1] * len(shape)
            types = f"{self.kind(shape)} to {self.kind(sizes)}"
            self.define(f"tensor.extract_slice {name}{starts} {sizes} {ones} : {types}", sizes)
        elif len(shape) > 1:
            flat = self.kind([prod(shape)])
            dims = list(range(len(shape)))
            self.define(f"tensor.collapse_shape {name} [{dims}] : {self.kind(shape)} into {flat}", [prod(shape)])

    def sharded(self):
        """An annotation with a random sharding."""
        name, shape = self.random.choice(self.values)
        axes = self.random.sample(range(len(self.grid)), self.random.randint(0, len(self.grid)))
        lists = [[] for _ in shape]
        for axis in axes:
            self.random.choice(lists).append(axis)
        self.lines.append(f"%s{self.count} = shard.sharding @grid0 split_axes = {lists} : !shard.sharding")
        sharding, users = f"%s{self.count}", self.random.choice(["", " annotate_for_users"])
        self.define(f"shard.shard {name} to {sharding}{users} : {self.kind(shape)}", shape)
