"""Sharding rules of array functions: which dimensions belong together, and what to compute on a block.

Pure: no process, no communication.  ``compute`` applies the rules to sharded arrays.
"""
