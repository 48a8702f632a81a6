"""Execution: functions of a module run on arrays, one operation after the other.

reading      attributes, types and lines of operations
values       undefined results; splats; types of values
table        what computes each operation, by its name
operations   the entries of the table, dialect by dialect
lines        calls that Python's frames show at lines of the text
runner       runs functions
communication  the devices around a process, as operations use them
devices      the engine's grids and collectives
reference    the same communication by numpy alone: all devices in one process
process_groups  groups of processes that a text lists by number
layouts      layouts that a text says, and the blocks of whole arrays
faults       errors with a position
"""
