"""Resharding: from any layout to any other."""
