"""Annotated functions: translated into a program, partitioned, and what the compiler's own pass would have done.

annotated   a function with ``shard.shard`` becomes a program
upstream    a model of the compiler's resharding
"""
