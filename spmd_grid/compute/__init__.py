"""Array functions on sharded arrays: the rules of ``functions``, applied on processes.

splits       the grid axes that cut each iterator of a function, and the shardings that follow
apply        one function: operands are brought to their shardings, blocks computed, partial results combined
calls        calls of functions: looked up in the table, planned once for arguments that look the same
alike        the short way of operators on arrays of one layout
contractions (a package) the cheapest way of a contraction
joining      concatenation, reshape and their relatives
scans        running sums, products and others
functions    pad and repeat, cells that are found, histograms, functions that write into an array
sorting      sorts of arrays that are cut along their one dimension, quantiles, unique cells, sets
windows      blocks with halos
cores        a device's own cells in a given sharding
index        indices: the cells that they name
selection    slices: which cells of which block they name, and how the result is spread
protocol     numpy's protocols and operators, as a base class of sharded arrays
"""
