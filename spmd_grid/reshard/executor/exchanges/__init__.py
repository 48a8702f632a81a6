"""The exchanges of bound plans.

box_exchange        an exchange of boxes, which most steps are
local_boxes         its boxes as parts of local arrays
as_movement         its boxes as those of an operation that moves them
staged_rounds       boxes that pass through staging memory, round by round
relayed_boxes       the same in the steps of a relay
relayed_folds       contributions in the steps of a relay, and their folds
carried_boxes       small arrays that come with the frames of the meeting
chunked_exchange    boxes that are sent in chunks, where memory is short
node_sharing        pieces that cross between nodes once
shared_copies       their copies on a node
native_collectives  steps that run as MPI's own collectives
"""
