"""Agreement between the members of a group: each describes its call, and all learn it before any data moves.

header           a member's description of its arrays, or its error
learn_facts      the opening of every collective
meeting          the meeting at which headers are swapped
choose_meeting   which of those below it is
node_meeting     what members of one node do in its memory, in all of them
line_meeting     every member posts a line and waits for those of all others
memory_meeting   the members all see one another's memory
crossing_meeting they are on several nodes, between which lines cross once
mixed_meeting    they are on many nodes, or on nodes that have no memory to share
ahead_lines      lines of members whose runs do not meet
frame_swap       a few bytes from every member, between operations
staging_ring     copies that others read
relay            arrays that pass through staging memory in steps
quicker_way      the quicker of two ways to do something, found by trying both
"""
