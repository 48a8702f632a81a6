"""Reductions of sharded arrays to one number: every cell of the global array counts once, wherever its copies are.

    sums, extremes    the public functions: sum, dot, norm; max, min
    combine           their common first and last step: checks, and one all_reduce of the processes' results
    cells             the cells that a process counts, read as contiguous runs
    dtypes            the dtypes of results, and of additions on the way
    exact, rounding   sums that are rounded once, at the end

A process reads its own cells, without a copy of them; then one small message gives the result to all processes.
"""
