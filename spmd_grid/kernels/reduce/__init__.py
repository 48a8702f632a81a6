"""Compiled reductions of rows, and exact sums."""
