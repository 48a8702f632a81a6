"""A program on a grid: what every device computes on its blocks, and the moves between shardings.

steps          computations and moves, as data
builder        records them, operation by operation
binding        the function of an operation, bound to a device
materialise    a program with a sharding for every value becomes steps
public         sg.partition
joint_moves    moves that run together
started_moves  moves that are started early
work           the seconds of a schedule
memory         the most memory that it needs
bound_program  a partitioned program on processes
running        its schedule as one compiled function
bound_moves    its moves as prepared collectives
storage        the arrays of its values
"""
