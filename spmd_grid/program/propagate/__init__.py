"""Propagation: annotations of a few values reach the others, through the iterators of the operations.

cuts          the axes that cut a dimension or an iterator, and the shardings made of them
annotations   annotations laid on values; those that cannot both hold are refused
propagation   backward and forward over the operations, to a fixed point
solution      the sharding of every value, the cut of every iterator, and the way that each came
"""
