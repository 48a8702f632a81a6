"""Annotations inside the function: activations stay cut, and the sums are combined where they are needed."""

import numpy as np
from step_1_trace import grid

import spmd_grid as sg

CUT = sg.Sharding(grid, [[], ["model"]])
SUMS = sg.Sharding(grid, [], partial_axes=["model"])


def mlp(x, w1, w2):
    h = np.maximum(x @ w1, 0)
    y = sg.constrain(h @ w2, SUMS)
    return sg.constrain(y, CUT, for_users=True)


program = sg.trace(mlp, sg.ArraySpec((6, 8)), sg.ArraySpec((8, 32)), sg.ArraySpec((32, 8)))
part = sg.partition(program, grid, in_shardings=[CUT, None, None])

if __name__ == "__main__":
    print(part.explain())
