"""Sharded arrays as contiguous ranges of bytes: blocks, who handles which, and the rounds that bring them together."""
