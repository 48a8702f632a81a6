"""What a program does, written down while it does it: for reports of hangs and mismatches, and for traces.

Off unless asked for.  This room knows processes and words; it knows neither grids nor how bytes move.
"""
