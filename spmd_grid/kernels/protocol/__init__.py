"""Compiled protocols over shared memory: meetings of a group, and exchanges between neighbours."""
