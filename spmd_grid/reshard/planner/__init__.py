"""Planners: steps, what they cost, and which of several plans is the cheapest."""
