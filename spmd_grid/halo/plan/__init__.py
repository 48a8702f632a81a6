"""Halo plans: their specification, their channels, the arrays they accept, and their operations."""
