"""Execution: functions of a module run on arrays, one operation after the other.

reading      attributes, types and lines of operations
values       undefined results; splats; types of values
table        what computes each operation, by its name
machine      runs functions, at the lines of the module's text
scalars      arith and math, on numbers and arrays alike
tensors      tensor
buffers      memref
structured   linalg
loops        scf and func
tosa, stablehlo, numpy_calls   operations on whole arrays
grids        indices of processes, shardings, sizes of shards
collectives  the communication of the shard dialect, by the engine
reference    the same communication by numpy alone: all devices in one process

A handler is written in numpy's calls, so the same one computes blocks on a device, whole arrays on one process, and
operations of a program that is being traced.
"""
