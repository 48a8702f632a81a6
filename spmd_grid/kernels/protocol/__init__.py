"""Compiled protocols over shared memory: meetings of a group, exchanges between neighbours."""
