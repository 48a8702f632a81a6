"""A program on a grid: what every device computes on its blocks, and the moves between shardings.

steps          computations and moves, as data
builder        records them, operation by operation
binding        the function of an operation, bound to a device
materialise    a program with a sharding for every value becomes steps
"""
