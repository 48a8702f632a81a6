"""Geometry of reshardings: the boxes that each process sends to each other one.

cuts         one dimension as a layout cuts it
pieces       a box, with the process at the other end
receives     the boxes that a device receives
sends        the boxes that a device sends
replicas     the replica that serves a receiver
messages     the messages of an exchange
components   the processes that a plan connects
node_pieces  the pieces that cross to a node once
"""
