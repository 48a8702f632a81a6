"""Functions that combine the cells along dimensions.

rules      sums, products, extremes, and whether any or all cells are true
totals     the sum of a block, as all of this package's sums take it
scans      running sums and their like, as numpy has them, or row by row
averages   mean, variance and their relatives
positions  argmax and argmin
nans       reductions that leave out NaNs
histograms counts of cells by bins and by values
"""
