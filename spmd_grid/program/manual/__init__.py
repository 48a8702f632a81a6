"""Manual computations: local code along some grid axes, with the engine's own collectives, inside a program.

public       manual: what users call, in traced functions, on sharded arrays, and inside one another
terms        the shardings and the manual axes of one manual computation, checked
abstract     the body on blocks without cells: shapes of its results, and its communications
lowering     the body as a step of a program
"""
