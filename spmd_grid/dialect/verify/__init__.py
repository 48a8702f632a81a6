"""Rules that programs of the dialect follow, beyond the form of their text.

module       all rules on every operation
order        values before their uses, names given once
grids        grids, and lists of their axes
shardings    shardings, and the tensors that they annotate
collectives  operations that move data
extents      extents of results from those of operands
process_groups  the groups of the collectives of stablehlo
dense        results of tosa and stablehlo
own_calls    functions and steps of our own texts
gspmd        shardings in other words, which are refused
tensors      slices, groups of dimensions, branches, conversions
"""
