"""Contractions of sharded arrays: the cheapest of the ways that the rule allows, and how it runs.

scheme       one way: the layouts of operands, partial result and result, its seconds and its memory
choose       the ways that the rule allows, and the cheapest of them that fits the memory
panels       a way whose summed dimension is walked in panels, where whole operands would not fit
course       a way as it runs on one process
public       matmul, einsum and tensordot with ``out_sharding``
"""
