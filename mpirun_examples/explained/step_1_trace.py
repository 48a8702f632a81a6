"""A numpy function becomes a program, and the program is spread over two devices."""

import numpy as np

import spmd_grid as sg


def mlp(x, w1, w2):
    h = np.maximum(x @ w1, 0)
    y = h @ w2
    return y


grid = sg.Grid((2,), axis_names=("model",))
program = sg.trace(mlp, sg.ArraySpec((6, 8)), sg.ArraySpec((8, 32)), sg.ArraySpec((32, 8)))
columns = sg.Sharding(grid, [[], ["model"]])
part = sg.partition(program, grid, in_shardings=[None, columns, None])

if __name__ == "__main__":
    for name in ("x", "w1", "h", "w2", "y"):
        print(f"{name:2}  {part.sharding_of(name)}")
    print(*part.collectives(), sep="\n")
