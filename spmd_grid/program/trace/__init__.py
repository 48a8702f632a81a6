"""Tracing: a function over numpy's calls becomes a program, without executing.

traced_array   what the function sees in place of arrays
tracer         records operations, and the lines that they come from
structure      slices, reshapes, concatenations and scans as operations
eager          sorts, searches and picks by lists, which run as sharded arrays compute them; shapes that depend on cells
keys           equal for calls of one function with equal plain arguments
lines          errors get the line of the user's function
naming         values get the names of the variables that they are assigned to
public         trace, constrain, sharding_group
"""
