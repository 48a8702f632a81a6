"""Mutations: another cut of an operation by hand, and many of them by search."""

import numpy as np

import spmd_grid as sg


def mlp(x, w1, w2):
    h = np.maximum(x @ w1, 0)
    y = h @ w2
    return y


def told(name, part):
    cost = part.cost()
    bytes_and_flops = f"{cost.received:>10,} bytes received, {cost.redundant_flops:>13,} flops that others do too"
    print(f"{name:9} {cost.seconds * 1e3:6.2f} ms, {bytes_and_flops}")


grid = sg.Grid((4,))
program = sg.trace(mlp, sg.ArraySpec((2000, 512)), sg.ArraySpec((512, 2048)), sg.ArraySpec((2048, 512)))
told("as it is", sg.partition(program, grid))

mutated = program.mutate("y", [[], [], [0]])  # the iterators of h @ w2: rows, columns, and those that are summed over
told("mutated", sg.partition(mutated, grid))

found = sg.autoshard(program, grid, seconds=0.5)
told("searched", found)
print([str(sharding) for sharding in found.in_shardings])
