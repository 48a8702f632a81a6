"""Handlers of the operations, dialect by dialect.

scalars      arith and math, on numbers and arrays alike
tensors      tensor
buffers      memref
linalg       linalg
loops        scf and func
tosa         tosa
stablehlo    stablehlo and mhlo
numpy_calls  functions of numpy in our own texts
own_steps    steps of our own plans
arguments    the arguments of both
rebuilt      calls that are made again from their layouts
grids        indices of processes, shardings, sizes of shards
collectives  the communication of the shard dialect
among        collectives of processes that stablehlo lists by number

A handler is written in numpy's calls, so the same one computes blocks on a device, whole arrays on one process, and
operations of a program that is being traced.
"""
