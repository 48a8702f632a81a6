"""Reductions of sharded arrays to one number: every cell of the global array counts once, wherever its copies are.

    sums, extremes    the public functions: sum, dot, norm; max, min
    checks            what they refuse
    cells             the cells that a process counts
    exact, rounding   sums that are rounded once, at the end

A process reads its own cells, without a copy of them; then one small message gives the result to all processes.  sum,
max and min are numpy's functions, whose rules are in ``functions/reductions/rules.py``, on arrays whose reduction takes
no more than that message.
"""
