"""Planner: the steps of reshardings, their cost, and the choice of the cheapest plan."""
