"""Sharded arrays in files: written by all processes at once, published only when whole, read in any layout."""
