"""The text of a partitioned program in the dialect's spelling, stage by stage.

stages      the stages by name
types       types of values, global and local, and the attributes of shardings
constants   constants, exact to the bit
calls       operations of our own as calls of declared functions
lines       the lines of one text: names of values, constants and shardings
attributes  plain arguments of calls, slices, and cuts
annotated   the traced program with the user's annotations, and with those that propagation found
scheduled   computations on blocks, and communication, with global or local types
moves       communication: one operation of the dialect per step of a plan
layouts     the layouts of a step, where types do not tell them
slicing     whole arguments cut to blocks by the index of the process
"""
