"""Geometry of reshardings: the boxes that each process sends to each other one."""
