"""Runs of plans that do not meet, in groups that span nodes, in compiled code."""
