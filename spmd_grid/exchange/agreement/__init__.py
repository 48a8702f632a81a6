"""Agreement between the members of a group: each describes its call, and all learn it before any data moves.

header          a member's description of its arrays, or its error
learn_facts     the opening of every collective
meeting         the meeting at which headers are swapped
choose_meeting  which of the two it is
memory_meeting  in the memory of a node
mixed_meeting   over several nodes
frame_crossing  the frames of a node's members, in one message to each other node
frame_swap      a few bytes from every member, between operations
staging_ring    copies that others read
relay           arrays that pass through staging memory in steps
quicker_way     the quicker of two ways to do something, found by trying both
"""
