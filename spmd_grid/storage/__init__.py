"""Data that outlives a run: checkpoints that restart on any number of processes, and plain files.

checkpoint  save, load, latest, verify
files       files that other programs read and write
ranges      the bytes of a file that each process reads or writes
arguments   checks that storing and loading share
team        the processes that store or load together
new_local   memory for the cells that are loaded
npy_format  headers of ``.npy`` files
checksums   checksums of blocks
owners      the locks of unfinished saves
paths       files and folders, with errors that name them
system      every system call of storage
"""
