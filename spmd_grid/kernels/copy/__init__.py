"""Compiled copies of boxes."""
