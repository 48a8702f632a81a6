"""Checkpoints: what a folder holds, how it is committed, loaded, verified and removed."""
