"""Functions made of other array functions and of slices.

arrangements  stacks, splits, diagonals, grids of coordinates
numerics      derivatives, covariances, choices among arrays
joins         shapes and element types of joined and reshaped arrays
"""
