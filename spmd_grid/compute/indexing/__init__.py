"""Ways of indexing, each in its file.

index        indices: the cells that they name
selection    slices: which cells of which block they name, and how the result is spread
shardings    the shardings that follow from a slice
fresh        slices whose cells lie in halos that are fresh
values       checks of the values that are written
puts         assignments to slices, the short way
masks        masks of the array's own shape
picks        lists of numbers along one dimension
pieces       the exchange that picks use
lookups      sharded arrays of numbers for all dimensions
rows         sharded lists of numbers along one dimension
cell_puts    writes to the cells that sharded arrays of numbers name
requests     the exchange that the last three use
"""
