"""Search: cheaper partitions than propagation's, by mutations.

candidates   mutations of a partitioned program, at random from a seed
autoshard    the cheapest of many
"""
