"""Executor: plans bound to processes, and the exchanges that they run.

specification       the arguments of a resharding, and the agreement that they are equal
arguments           this process's arrays, checked
members             processes, coordinates and ranks
prepared_reshard    a resharding as a collective operation
kept_plans          the bound plans that a group keeps
bound_plan          a plan bound to processes
reshard_run         the same for hot and compiled loops
box_exchange        an exchange of boxes, which most steps are
local_boxes         its boxes as parts of local arrays
staged_rounds       boxes that pass through staging memory, round by round
relayed_boxes       the same in the steps of a relay
chunked_exchange    boxes that are sent in chunks, where memory is short
node_sharing        pieces that cross between nodes once
shared_copies       their copies on a node
native_collectives  steps that run as MPI's own collectives
"""
