"""Calls of operations: checked arguments, agreement of the group, and the calls that are kept for the next time."""
