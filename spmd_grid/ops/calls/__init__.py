"""Calls of operations: arguments checked, agreed upon by the group, kept for the next time."""
