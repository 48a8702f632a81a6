"""Verification: plans are checked by box arithmetic before they first run."""
