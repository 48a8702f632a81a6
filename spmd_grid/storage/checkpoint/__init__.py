"""Checkpoints: what a folder holds, how it is committed, loaded, verified and removed.

save        sg.save
load        sg.load
verify      a checkpoint read again
making      the folder and files of a checkpoint that is being made
options     the options of a save, checked
tree        the state of a program as a tree
manifest    what a checkpoint holds, and its checksums
dtypes      dtypes in a manifest
generators  random generators in a manifest
folders     names, numbers and removal of checkpoints
writing     blocks on their way to files
staging     the memory that this needs beside the program
"""
