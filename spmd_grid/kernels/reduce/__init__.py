"""Compiled reductions of rows, sums of long runs, and exact sums."""
