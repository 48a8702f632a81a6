"""Movements between nodes in which several members of a node take part: each byte crosses to a node once."""
