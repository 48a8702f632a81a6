"""Rules that programs of the dialect follow, beyond the form of their text.

module       all rules on every operation
order        values before their uses, calls of functions that fit
grids        grids, and lists of their axes
shardings    shardings, and the tensors that they annotate
collectives  operations that move data
"""
