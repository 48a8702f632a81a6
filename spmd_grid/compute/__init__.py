"""Array functions on sharded arrays: the rules of ``functions``, applied on processes.

splits       which grid axes cut which iterator of a function, and the shardings that follow for operands and results
apply        one function: operands are brought to their shardings, blocks computed, partial results combined
selection    slices: which cells of which block they name, and how the result is spread
protocol     numpy's protocols and operators, as a base class of sharded arrays
"""
