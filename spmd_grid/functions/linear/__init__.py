"""Contractions, and linear algebra that is made of them.

subscripts      einsum's subscripts, read and split into pairs
products        the product of two blocks, by BLAS where it has it
contractions    matmul, tensordot, einsum and their relatives
linear_algebra  norms, traces, cross and matrix products made of contractions
transforms      Fourier transforms
"""
