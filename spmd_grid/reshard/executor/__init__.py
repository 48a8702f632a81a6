"""Executor: plans bound to processes, and the exchanges that they run."""
