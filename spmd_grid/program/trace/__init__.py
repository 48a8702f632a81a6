"""Tracing: a function over numpy's calls becomes a program, without executing.

traced_array   what the function sees in place of arrays
tracer         records operations, and the lines that they come from
structure      slices, reshapes, concatenations and scans as operations
public         trace, constrain, sharding_group
"""
