"""Handlers of the operations, dialect by dialect.

scalars      arith and math, on numbers and arrays alike
tensors      tensor
buffers      memref
structured   linalg: named operations
generic      linalg: bodies over loops
loops        scf and func
tosa, stablehlo, numpy_calls   operations on whole arrays
grids        indices of processes, shardings, sizes of shards
collectives  the communication of the shard dialect
among        collectives of processes that stablehlo lists by number

A handler is written in numpy's calls, so the same one computes blocks on a device, whole arrays on one process, and
operations of a program that is being traced.
"""
