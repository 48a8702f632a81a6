"""Reductions of sharded arrays to one number: every cell of the global array counts once, wherever its copies are.

    sums, extremes    the public functions: sum, dot, norm; max, min
    combine           what opens and ends them: checks, and one all_reduce of what the processes found
    cells             which cells a process counts, and how they are read
    dtypes            in what they are added, and what comes out
    exact, rounding   sums that are rounded once, at the end

A process reads its own cells, without a copy of them; then one small message makes all of them know the result.
"""
