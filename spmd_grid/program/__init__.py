"""Programs: a function over numpy's calls that is traced, spread over a grid by annotations, and run on all devices.

ir           values, operations and annotations of a traced program
trace        a function becomes a program, by the protocols by which arrays compute
manual       local code inside a program
propagate    annotations reach the values that have none
partition    a program on a grid: local computations, and the moves between shardings

Nothing below imports this package.
"""
