"""Sums, differences, products and quotients of small blocks.

operations  the operations by ufunc, with numpy's warnings
blocks      the compiled functions
"""
