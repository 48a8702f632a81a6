"""Reductions between nodes: where arrays cross, how they are cut, and the tasks of the members that carry them."""
