"""Array functions on sharded arrays: the rules of ``functions``, applied on processes.

splits       the grid axes that cut each iterator of a function, and the shardings that follow
course       one function: operands are brought to their shardings, blocks computed, partial results combined
fourier      Fourier transforms of any layout
calls        calls of functions: looked up in the table, planned once for arguments that look the same
alike        the short way of operators on arrays of one layout
contractions the cheapest way of a contraction
functions    functions that need processes beyond that: concatenation, reshape, scans, pad, cells that are found, ...
sorting      sorts of arrays that are cut along their one dimension, quantiles, unique cells, sets
blas_threads the number of threads with which processes multiply large blocks
cores        a device's own cells in a given sharding
indexing     slices, masks and lists of numbers as indices
plain_operands  comparisons of numbers and numpy arrays in checking mode
memory       the memory of an array: its own, or that of the array of which it is a slice
views        slices and the like: writes to them reach their source, and they show what is written there
standard     methods of the array API standard, as a base class of sharded arrays
operators    operators on arrays of one layout, as one function each
strict       errors of floating point that a program asks for, raised by all processes
temporaries  results written into temporary arrays of the same expression
protocol     numpy's protocols and operators, as a base class of sharded arrays
"""
