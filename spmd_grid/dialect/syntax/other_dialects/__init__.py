"""Dialects beside the shard dialect, with what xdsl leaves out or refuses.

arith      arith and memref
linalg     linalg, with its named operations
scf        scf, with the pretty form of parallel loops
tosa       the part of tosa that computes on whole tensors
stablehlo  the part of stablehlo that dense networks use; mhlo is read as it
"""
