"""Data that outlives a run: checkpoints that restart on any number of processes, and plain files."""
