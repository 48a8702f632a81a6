"""Executor: plans bound to processes, and the exchanges that they run.

specification     the arguments of a resharding, and the agreement that they are equal
arguments         this process's arrays, checked
members           processes, coordinates and ranks
prepared_reshard  a resharding as a collective operation
first_run         the first run of a request, for which no plan is bound
kept_plans        the bound plans that a group keeps
bound_plan        a plan bound to processes
ahead             bound plans whose runs do not meet, between nodes
reshard_run       the same for hot and compiled loops
exchanges         the exchanges of its steps
"""
