"""Records of the operations of a program, for reports of hangs and mismatches, and for traces.

Off unless requested.  This package knows processes and text; it knows neither grids nor how bytes move.
"""
