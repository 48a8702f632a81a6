"""The course of one function on arrays of certain layouts and dtypes: found once, run for each call.

apply    operands are resharded, blocks computed, partial results combined
output   results that are written to ``out``
combine  the last step of reductions: one all_reduce, known by their names, dtypes and layouts
shares   the part of cells that several devices hold which each of them takes
windows  blocks with halos
"""
